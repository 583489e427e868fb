package padlock_test

import (
	"context"
	"errors"
	"testing"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/memstore"
)

// reporting is a store that reports facts about its server.
type reporting struct {
	driver.Store
	err error
}

func (r reporting) Status(context.Context) ([]driver.Finding, error) {
	return []driver.Finding{{Name: "uptime", Value: "1h"}}, r.err
}

func TestStatus(t *testing.T) {
	found, err := newLocker(t, reporting{memstore.New(), nil}).Status(t.Context())
	if err != nil || len(found) != 1 || found[0].Value != "1h" {
		t.Errorf("found %v, %v", found, err)
	}
	found, err = newLocker(t, reporting{memstore.New(), padlock.ErrUnavailable}).Status(t.Context())
	if !errors.Is(err, padlock.ErrUnavailable) || found != nil {
		t.Errorf("out of reach: %v, %v", found, err)
	}
	if _, err = newLocker(t, memstore.New()).Status(t.Context()); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("nothing to tell: %v", err)
	}
}
