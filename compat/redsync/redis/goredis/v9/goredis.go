// Package goredis makes pools of package compat/redsync from go-redis clients.
//
// Use it if a program moves from redsync, whose package of this name it replaces. If it does not, use
// package compat/goredis instead.
package goredis

import (
	"github.com/padlock-go/padlock/compat/goredis"
	"github.com/padlock-go/padlock/compat/redsync"
	"github.com/padlock-go/padlock/stores/redisstore"
	"github.com/redis/go-redis/v9"
)

type pool struct{ client redis.UniversalClient }

func (p pool) Config() (redisstore.Config, error) { return goredis.FromClient(p.client) }

// NewPool returns a pool with the settings of the client. See package compat/goredis for what these
// are.
func NewPool(client redis.UniversalClient) redsync.Pool { return pool{client} }
