// Sampler is the program of docs/monitoring.md that watches a store from outside.
package main
