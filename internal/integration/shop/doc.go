// Package shop tests examples/shop in a real browser, Chromium, through the DevTools protocol.
package shop
