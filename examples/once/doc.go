// Once is the program of docs/tasks.md that does a thing once.
package main
