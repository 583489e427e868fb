package session_test

import (
	"github.com/padlock-go/padlock/session"
	"github.com/padlock-go/padlock/session/sessiontest"
)

// stores are what most tests run on: one that knows keys, and one that keeps
// single values.
var stores = map[string]func() session.Store{
	"memory": func() session.Store { return session.NewMemory() },
	"blobs": func() session.Store {
		return session.FromBlobs(sessiontest.NewBlobs(), session.Packed(), session.Traits{})
	},
}
