// Readme is the program of README.md with locks in files, which need no server: a job that runs
// once, however often it is started.
package main
