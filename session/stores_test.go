package session_test

import (
	"github.com/padlock-go/padlock/session"
	"github.com/padlock-go/padlock/session/sessiontest"
)

// stores are the two kinds of stores for most tests. One knows the keys of a session; the other
// keeps a session as a single value.
var stores = map[string]func() session.Store{
	"memory": func() session.Store { return session.NewMemory() },
	"blobs": func() session.Store {
		return session.FromBlobs(sessiontest.NewBlobs(), session.Packed(), session.Traits{})
	},
}
