// Package redis has the type of the pools of package compat/redsync.
package redis

import "github.com/padlock-go/padlock/stores/redisstore"

// A Pool says where a Redis server is. In redsync it is a pool of connections; here a store makes its
// own connection. Pools are compared with ==: equal ones share it.
type Pool interface {
	// Config returns the settings of the server. The error says what cannot be taken over.
	Config() (redisstore.Config, error)
}
