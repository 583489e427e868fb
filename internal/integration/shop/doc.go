// Package shop tests examples/shop, and sessions of a site in a frame, in a real browser, Chromium,
// through the DevTools protocol.
package shop
