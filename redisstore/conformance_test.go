package redisstore_test

import (
	"context"
	"testing"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/drivertest"
	"github.com/padlock-go/padlock/drivertest/server"
	"github.com/padlock-go/padlock/redisstore"
	"github.com/redis/rueidis"
)

// TestContract checks every layout against the contract of package driver.
func TestContract(t *testing.T) {
	for name, opts := range map[string][]redisstore.Option{
		"set":               nil,
		"set without fence": {redisstore.Fences(false)},
		"string":            {redisstore.PlainStrings()},
		"plain string":      {redisstore.PlainStrings(), redisstore.Fences(false)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := server.Redis(t, server.RedisOptions{})
			drivertest.Run(t, drivertest.Harness{
				Open: func(ctx context.Context) (driver.Store, error) {
					return open(ctx, srv, opts...)
				},
				Anonymous: name == "plain string",
			})
		})
	}
}

func single(addr string) rueidis.ClientOption {
	return rueidis.ClientOption{InitAddress: []string{addr}, ForceSingleClient: true}
}

func open(ctx context.Context, srv *server.Server, opts ...redisstore.Option) (driver.Store, error) {
	s, err := redisstore.Open(ctx, single(srv.Addr()), opts...)
	if err != nil {
		return nil, err
	}
	return s, nil
}
