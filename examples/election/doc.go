// Election is the program of docs/election.md: one leader among many processes.
package main
