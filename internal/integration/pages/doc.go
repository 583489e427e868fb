// Package pages has no code. Its tests compile and run the programs of the README and of docs/, and
// the commands whose output the README shows.
package pages
