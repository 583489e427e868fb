// Slots is the program of docs/slots.md: at most N at the same time.
package main
