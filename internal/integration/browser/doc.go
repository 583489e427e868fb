// Package browser lets tests of web pages control Chromium. Chromium runs without a window, and the
// package controls it through the DevTools protocol.
package browser
