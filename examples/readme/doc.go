// Readme is the program of README.md: a job that runs once, however often it is started.
package main
