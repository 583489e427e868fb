// Package sqlstore tries padlock's sqlstore on real databases.
package sqlstore
