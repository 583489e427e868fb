// Package goredis makes pools of package compat/redsync from go-redis clients.
package goredis

import (
	"github.com/padlock-go/padlock/compat/goredis"
	"github.com/padlock-go/padlock/compat/redsync/redis"
	"github.com/padlock-go/padlock/stores/redisstore"
	goredislib "github.com/redis/go-redis/v9"
)

type pool struct{ client goredislib.UniversalClient }

func (p pool) Config() (redisstore.Config, error) { return goredis.FromClient(p.client) }

// NewPool returns a pool with the settings of the client. See package compat/goredis for what these
// are.
func NewPool(client goredislib.UniversalClient) redis.Pool { return pool{client} }
