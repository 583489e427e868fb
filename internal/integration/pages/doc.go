// Package pages has only tests. They compile and run the programs of the README and of docs/, and
// run the commands whose output the README shows.
package pages
