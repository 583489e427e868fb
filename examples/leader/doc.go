// Leader is the program of docs/leader-database.md: one leader that writes into its own database.
package main
