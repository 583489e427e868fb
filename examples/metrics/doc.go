// Metrics is the program of docs/monitoring.md that shows figures for Prometheus.
package main
