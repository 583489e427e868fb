// Package mysqladvisory tests padlock's mysqladvisory with real servers.
package mysqladvisory
