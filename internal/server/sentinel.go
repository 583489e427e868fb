package server

import (
	"context"
	"fmt"
	"testing"
)

// Sentinel starts a sentinel of Redis that watches one server. The sentinel calls that server
// "main".
func Sentinel(t testing.TB, primary *Server) *Server {
	t.Helper()
	return Start(t, Spec{
		Name: "redis-sentinel", Package: "redis-server", Binary: []string{"redis-server", "valkey-server"},
		Args: func(p Place) []string { return []string{p.Path("sentinel.conf"), "--sentinel"} },
		Prepare: func(_ context.Context, p Place) error {
			return p.Write("sentinel.conf", fmt.Appendf(nil, "port %d\nbind 127.0.0.1\ndir %s\n"+
				"sentinel monitor main 127.0.0.1 %d 1\nsentinel down-after-milliseconds main 2000\nsentinel failover-timeout main 3000\n",
				p.Port, p.Dir, primary.Place().Port))
		},
		Ready: answersPing,
	})
}
