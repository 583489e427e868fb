package redisstore_test

import (
	"errors"
	"testing"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/server"
)

// The trace of a holder is in its record, so that others can link to it, and holders with different
// traces are not mixed up.
func TestTraceOfTheHolder(t *testing.T) {
	t.Parallel()
	s := opened(t, server.Redis(t, server.RedisOptions{}).Addr())
	for _, trace := range []string{"", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b8-01"} {
		r := request("traced" + trace)
		r.Holder.Trace = trace
		take(t, s, r)
		other := request(r.Name)
		var held *driver.HeldError
		if _, err := s.Acquire(t.Context(), other); !errors.As(err, &held) || len(held.Holds) != 1 || held.Holds[0].Trace != trace {
			t.Errorf("trace %q: %v, %+v", trace, err, held)
		}
	}
}
