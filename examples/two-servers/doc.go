// Two-servers is the program of docs/first-program.md.
package main
