package sessiontest_test

import (
	"fmt"
	"testing"

	"github.com/padlock-go/padlock/web/session/sessionstore"
	"github.com/padlock-go/padlock/web/session/sessiontest"
)

// This is the test of a store of sessions. Both handles that Open returns must have the same
// sessions, as in two processes.
func ExampleRun() {
	shared := sessionstore.NewMemory()
	_ = func(t *testing.T) { // func TestContract(t *testing.T)
		sessiontest.Run(t, sessiontest.Harness{Open: func() (sessionstore.Store, error) { return shared, nil }})
	}
}

// Check runs the suite without a testing.T, for a program that tests several stores.
func ExampleCheck() {
	shared := sessionstore.NewMemory()
	failures := sessiontest.Check(sessiontest.Harness{Open: func() (sessionstore.Store, error) { return shared, nil }})
	fmt.Println(len(failures), "failures")
	// Output: 0 failures
}
