package session_test

import (
	"github.com/padlock-go/padlock/web/session/sessionstore"
	"github.com/padlock-go/padlock/web/session/sessiontest"
)

// stores are the two kinds of stores for most tests. One knows the keys of a session; the other
// keeps a session as a single value.
var stores = map[string]func() sessionstore.IndexedStore{
	"memory": func() sessionstore.IndexedStore { return sessionstore.NewMemory() },
	"blobs": func() sessionstore.IndexedStore {
		return sessionstore.FromBlobs(sessiontest.NewBlobs(), sessionstore.Packed(), sessionstore.Traits{})
	},
}
