package faults

import (
	"errors"
	"strings"
	"testing"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/open/all"
)

// TestReplicaOfPostgres: a store that is pointed at a replica, which may lag, is refused. Its locks
// would not be seen at the primary, and those of the primary are seen late.
func TestReplicaOfPostgres(t *testing.T) {
	server.Thorough(t)
	t.Parallel()
	primary := server.Postgres(t, server.PostgresOptions{})
	kinds := map[string]func(url string) string{
		"tables":         func(url string) string { return url },
		"advisory locks": func(url string) string { return "postgres+advisory" + strings.TrimPrefix(url, "postgres") },
		"Symfony's":      func(url string) string { return url + "&layout=symfony" },
	}
	for kind, at := range kinds {
		s, err := all.Store(t.Context(), at(primary.URL()))
		if err != nil {
			t.Fatalf("%s at the primary: %v", kind, err)
		}
		l := padlock.New(s)
		if _, err := l.TryAcquire(t.Context(), "job"); err != nil {
			t.Errorf("%s at the primary: %v", kind, err)
		}
		if err := l.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
	replica := server.PostgresStandby(t, primary, server.PostgresOptions{})
	for kind, at := range kinds {
		s, err := all.Store(t.Context(), at(replica.URL()))
		if err == nil {
			s.Close()
		}
		if !errors.Is(err, padlock.ErrUnavailable) || !strings.Contains(err.Error(), "standby") {
			t.Errorf("%s at a replica: %v", kind, err)
		}
	}
}
