package advisory_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit/advisory"
)

var errShared = errors.Join(driver.ErrInvalid, errors.New("one session has two clients"))

// A proxied dialect reaches its server through a proxy.
type proxied struct {
	*dialect
	conflict int // the number of the comparison that finds a shared session; 0 is none
	compared [][2]*session
}

func (d *proxied) Probes(*session, bool) int { return 3 }

func (d *proxied) Conflict(c, other *session) error {
	d.compared = append(d.compared, [2]*session{c, other})
	if len(d.compared) == d.conflict {
		return errShared
	}
	return nil
}

// The first connection is compared with three more, and a shared session is found by any of them.
// The others are closed.
func TestProbes(t *testing.T) {
	for conflict, made := range map[int]int{0: 4, 1: 2, 2: 3, 3: 4} {
		d := &proxied{dialect: &dialect{srv: newServer()}, conflict: conflict}
		s := openOn(d)
		if err := advisory.Prepare(t.Context(), s); errors.Is(err, errShared) != (conflict > 0) || conflict == 0 && err != nil {
			t.Errorf("comparison %d finds a shared session: %v", conflict, err)
		}
		if len(d.sessions) != made {
			t.Errorf("comparison %d finds a shared session: %d connections were made", conflict, len(d.sessions))
		}
		for i, c := range d.sessions {
			if open := i == 0 && conflict == 0; (c.bound.Err() == nil) != open {
				t.Errorf("comparison %d finds a shared session: connection %d is open: %v", conflict, i, !open)
			}
		}
		s.Close()
	}
}

// A later connection is compared with those that the store has. If two share a session, both end,
// and the holder learns why.
func TestConflictWithAHolder(t *testing.T) {
	d := &proxied{dialect: &dialect{srv: newServer()}}
	s := openOn(d)
	defer s.Close()
	g, err := s.Acquire(t.Context(), request("job"))
	if err != nil {
		t.Fatal(err)
	}
	holder := d.sessions[0]
	d.conflict = len(d.compared) + 1
	if g, err := s.Wait(t.Context(), request("other"), true); err != nil || g.TTL != 0 {
		t.Errorf("a wait in a session that is shared: %+v, %v", g, err)
	}
	if last := d.compared[len(d.compared)-1]; last[1] != holder {
		t.Error("the new connection was not compared with the holder's")
	}
	if g.Bound.Err() == nil || !errors.Is(context.Cause(g.Bound), errShared) {
		t.Errorf("the holder's connection: %v", context.Cause(g.Bound))
	}
}

// A poor dialect has no table of fences, or no right to it.
type poor struct {
	*dialect
	table, rights bool
}

func (d *poor) Lacks(err error) (table, rights bool) {
	return err == errRefused && d.table, err == errRefused && d.rights
}

func (d *poor) MakeTable(*session) error { return errRefused }

func (d *poor) Fence(*session, string) (uint64, bool, error) { return 0, false, errRefused }

// An error about the table of fences says what to do.
func TestAdvice(t *testing.T) {
	for advice, d := range map[string]*poor{"SQL of Schema, or": {table: true}, "grant SELECT": {rights: true}, "": {}} {
		d.dialect = &dialect{srv: newServer()}
		s := openOn(d)
		_, err := s.Acquire(t.Context(), request("job"))
		if !errors.Is(err, driver.ErrUnavailable) || !errors.Is(err, errRefused) || !strings.Contains(err.Error(), advice) {
			t.Errorf("%v, want %q", err, advice)
		}
		if strings.Count(err.Error(), "leave fences out") > 1 || advice == "" && strings.Contains(err.Error(), "fences") {
			t.Errorf("the advice is wrong, or stands twice: %v", err)
		}
		s.Close()
	}
}
