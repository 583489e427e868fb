// Shutdown is the program of docs/shutdown.md: it ends in the right order on SIGTERM.
package main
