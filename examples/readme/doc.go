// Readme is the program of README.md: a job that runs once, however often it is started. It needs
// a Redis at localhost:6379.
package main
