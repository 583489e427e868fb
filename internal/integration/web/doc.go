// Package web tests the web page of "padlock serve" in a real browser (Chromium). It also tests the
// command itself, and starts the command as users do.
package web
