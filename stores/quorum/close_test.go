package quorum_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/stores/memstore"
	"github.com/padlock-go/padlock/stores/quorum"
)

// slowToClose is a member that is away: its Close waits.
type slowToClose struct{ driver.Store }

var errAway = errors.New("away")

func (s slowToClose) Close() error {
	<-time.After(8 * time.Second)
	return errors.Join(errAway, s.Store.Close())
}

func (s slowToClose) Guarantees() driver.Guarantees {
	g := s.Store.Guarantees()
	g.Hashed = true
	return g
}

// Members that are away hold up Close together, and not one after the other.
func TestCloseOfMembersThatAreAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := quorum.New(quorum.Majority, []driver.Store{memstore.New(), slowToClose{memstore.New()}, slowToClose{memstore.New()}}, quorum.NoFences())
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		if err := s.Close(); !errors.Is(err, errAway) {
			t.Errorf("Close: %v", err)
		}
		if took := time.Since(start); took != 8*time.Second {
			t.Errorf("Close took %v", took)
		}
	})
}

// A quorum says if names can share a lock at its members.
func TestHashedMembersAreNamed(t *testing.T) {
	for want, members := range map[bool][]driver.Store{
		true:  {memstore.New(), slowToClose{memstore.New()}},
		false: {memstore.New(), memstore.New()},
	} {
		s, err := quorum.New(quorum.All, members, quorum.NoFences())
		if err != nil {
			t.Fatal(err)
		}
		if notes := strings.Join(s.Guarantees().Notes, " "); strings.Contains(notes, "share one lock") != want {
			t.Errorf("%v: %s", want, notes)
		}
	}
}
