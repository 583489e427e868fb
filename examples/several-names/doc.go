// Several-names is the program of docs/several-names.md.
package main
