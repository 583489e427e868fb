// Package web tests the web page of "padlock serve" in a real browser, Chromium, and the command
// itself as its users start it.
package web
