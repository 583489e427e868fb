// Package browser drives Chromium without a window through the DevTools protocol, for tests of
// pages.
package browser
