// Package sqlstore tests padlock's sqlstore with real databases.
package sqlstore
