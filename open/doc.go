// Package open makes a store from its URL.
package open
