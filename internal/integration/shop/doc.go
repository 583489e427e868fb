// Package shop tries examples/shop in a real browser, Chromium, which it talks
// to by the DevTools protocol.
package shop
