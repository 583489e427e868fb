package advisory_test

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit/advisory"
)

// A sharing dialect grants every reader, and stops in Intend.
type sharing struct {
	*dialect
	began, resume chan struct{}
}

func (d *sharing) Try(*session, advisory.Lock, *driver.Request) (advisory.Grant, error) {
	return advisory.Grant{Granted: true, Fence: 1}, nil
}

func (d *sharing) Intend(*session, advisory.Lock) (bool, error) {
	d.began <- struct{}{}
	<-d.resume
	return true, nil
}

func (d *sharing) Queued(*session, advisory.Lock) (bool, error)   { return false, nil }
func (d *sharing) Withdraw(*session, advisory.Lock) (bool, error) { return true, nil }
func (d *sharing) Demote(*session, advisory.Lock) error           { return nil }
func (d *sharing) Promote(*session, advisory.Lock, *driver.Request) (advisory.Grant, error) {
	return advisory.Grant{Granted: true, Fence: 2}, nil
}

// Two readers of one process want to be promoted at the same time. The second one is refused while
// the store asks for the first one. The server would grant the intent to both if they share a
// session, and one of them would end it for the other.
func TestTwoPromotionsAtOnce(t *testing.T) { synctest.Test(t, twoPromotionsAtOnce) }

func twoPromotionsAtOnce(t *testing.T) {
	d := &sharing{dialect: &dialect{srv: newServer()}, began: make(chan struct{}, 2), resume: make(chan struct{})}
	s := advisory.Shared(advisory.New(d, advisory.Config{Guarantees: driver.Guarantees{Store: "fake-advisory", Bound: driver.BoundToConnection}}))
	defer s.Close()
	first, second := request("job"), request("job")
	for _, r := range []*driver.Request{&first, &second} {
		r.Shared = true
		if _, err := s.Acquire(t.Context(), *r); err != nil {
			t.Fatal(err)
		}
		r.Shared = false
	}
	result := make(chan error)
	go func() {
		_, err := s.Convert(t.Context(), first)
		result <- err
	}()
	<-d.began
	other := make(chan error, 1)
	go func() {
		_, err := s.Convert(t.Context(), second)
		other <- err
	}()
	select {
	case err := <-other:
		if !errors.Is(err, driver.ErrPromotionConflict) {
			t.Errorf("the second reader: %v", err)
		}
	case <-d.began:
		t.Error("both ask the server for the intent")
	}
	close(d.resume)
	if err := <-result; !errors.Is(err, driver.ErrHeld) {
		t.Errorf("the first reader, while the second one is there: %v", err)
	}
}
