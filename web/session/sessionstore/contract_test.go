package sessionstore_test

import (
	"testing"

	"github.com/padlock-go/padlock/web/session/sessionstore"
	"github.com/padlock-go/padlock/web/session/sessiontest"
)

func same(s sessionstore.Store) func() (sessionstore.Store, error) {
	return func() (sessionstore.Store, error) { return s, nil }
}

func TestMemory(t *testing.T) {
	sessiontest.Run(t, sessiontest.Harness{Open: same(sessionstore.NewMemory())})
}

func TestPacked(t *testing.T) {
	sessiontest.Run(t, sessiontest.Harness{Open: same(sessionstore.FromBlobs(sessiontest.NewBlobs(), sessionstore.Packed(), sessionstore.Traits{}))})
}
