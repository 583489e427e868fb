package drivertest_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/drivertest"
	"github.com/padlock-go/padlock/stores/memstore"
)

// This is the test of a store. All stores that Open returns see the same locks.
func ExampleRun() {
	shared := memstore.New()
	_ = func(t *testing.T) { // func TestContract(t *testing.T)
		drivertest.Run(t, drivertest.Harness{
			Open: func(context.Context) (driver.Store, error) { return shared.Open(), nil },
		})
	}
}

// A failure names the broken rule, then what was seen.
func ExampleFailure() {
	fmt.Println(drivertest.Failure{
		Case:   "extend/never-shortens",
		Clause: "Extend never shortens a lease.",
		Seen:   "Acquire by another process: granted 300ms too early",
		At:     "cases_extend.go:33",
	})
	// Output:
	// extend/never-shortens: Extend never shortens a lease.
	// 	seen: Acquire by another process: granted 300ms too early
	// 	at:   cases_extend.go:33
}
