// Package mysqlstore tests padlock's mysqlstore with real servers.
package mysqlstore
