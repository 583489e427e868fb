package rig

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/drivertest"
	"github.com/padlock-go/padlock/lab/soak"
)

// Every fault of a database can be caused and ended, and locks are granted afterwards.
func TestDatabaseFaults(t *testing.T) {
	t.Parallel()
	for _, row := range Rows() {
		if !strings.Contains(row.Name, "SQL") && !strings.Contains(row.Name, "MariaDB") {
			continue
		}
		if strings.Contains(row.Name, "older") || strings.HasPrefix(row.Name, "quorum") {
			continue // other rows have the same faults
		}
		t.Run(row.Name, func(t *testing.T) {
			t.Parallel()
			site := place(t)
			set, err := row.build(site)
			if err != nil && os.Getenv("CI") != "true" {
				t.Skip(err)
			}
			if err != nil {
				t.Fatal(err)
			}
			full := false
			for _, f := range set.faults {
				switch {
				case len(f.On) > 0 && strings.HasPrefix(f.On[0], "link"):
				case f.Kind == diskFull:
					full = true
					onFullDisk(t, set.stages[0][0], f)
				default:
					once(t, f)
				}
				if err := grants(t, set.stages[0][0], "after "+f.Kind, time.Minute); err != nil {
					t.Errorf("after %s: %v", f.Kind, err)
				}
			}
			if !full {
				t.Log("this process may not mount a small disk")
			}
		})
	}
}

// onFullDisk runs the contract's cases of a full store: no lock that is held is lost, and everything
// works when there is room again.
func onFullDisk(t *testing.T, config string, f soak.Fault) {
	t.Helper()
	undo := func() error { return nil }
	full := func(on bool) (err error) {
		if on {
			if undo, err = f.Begin(mathrand.New(mathrand.NewPCG(1, 1)), 0); err == nil {
				err = useUp(t.Context(), config)
			}
			return err
		}
		err = undo()
		undo = func() error { return nil }
		for i := 0; i < 100 && err == nil; i++ { // the server may free the room later, bit by bit
			err = grants(t, config, "with room again "+rand.Text(), time.Minute)
		}
		return err
	}
	if strings.HasPrefix(config, bankWord) { // its locks are not the only thing that it writes
		if err := errors.Join(full(true), full(false)); err != nil {
			t.Error(err)
		}
		return
	}
	for _, failure := range drivertest.Check(drivertest.Harness{
		Open:        func(ctx context.Context) (driver.Store, error) { return Open(ctx, config) },
		Logf:        t.Logf,
		Slow:        true,
		Alone:       true,
		FullRefuses: []string{"extend", "release", "demotion"},
		Full:        full,
	}) {
		t.Error(failure)
	}
}

// useUp takes new names on a full disk until the database has no room for another one.
func useUp(ctx context.Context, config string) error {
	s, err := Open(ctx, config)
	if err != nil {
		return err
	}
	defer s.Close()
	for i := range 3000 {
		err := grantAt(ctx, s, fmt.Sprint("on a full disk ", i))
		switch {
		case errors.Is(err, driver.ErrUnavailable), errors.Is(err, driver.ErrUncertain):
			return nil
		case err != nil:
			return err
		}
	}
	return errors.New("the database did not notice that its disk is full")
}

// grants returns nil if the store grants a name within the given time.
func grants(t *testing.T, config, name string, within time.Duration) error {
	t.Helper()
	for end := time.Now().Add(within); ; {
		err := grantOnce(t.Context(), config, name)
		if err == nil || time.Now().After(end) {
			return err
		}
	}
}

func grantOnce(ctx context.Context, config, name string) error {
	s, err := Open(ctx, config)
	if err != nil {
		return err
	}
	defer s.Close()
	return grantAt(ctx, s, name)
}

func grantAt(ctx context.Context, s driver.Store, name string) error {
	_, err := s.Acquire(ctx, driver.Request{Name: name, Token: driver.TokenOf(name), TTL: time.Second})
	if errors.Is(err, driver.ErrUncertain) || err == nil {
		_, _ = s.Release(ctx, name, name, 0) // its error is ignored: that of the grant is returned
	}
	return err
}
