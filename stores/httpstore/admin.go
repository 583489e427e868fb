package httpstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/driver/fast"
	"github.com/padlock-go/padlock/internal/httpapi"
)

// state is what a server reports about a name.
type state struct {
	Name       string   `json:"name"`
	NameBase64 []byte   `json:"name_base64"`
	Permit     *int     `json:"slot"`
	Fence      uint64   `json:"fence"`
	Holders    []holder `json:"holders"`

	Asked *httpapi.Asked `json:"asked"`
}

func (w *state) complete() bool { return w.Holders != nil }

// listed is what list answers.
type listed struct {
	Locks   []state `json:"locks"`
	LeftOut int     `json:"left_out"`
}

func (l *listed) complete() bool {
	return l.Locks != nil && !slices.ContainsFunc(l.Locks, func(w state) bool { return !w.complete() })
}

// broken is what break answers.
type broken struct {
	Fence *uint64 `json:"fence"`
}

func (b *broken) complete() bool { return b.Fence != nil }

// state returns the state of the name that the store knows. The number of waiters is unknown; see
// heldError.
func (w *state) state() driver.State {
	out := driver.State{Name: w.Name, Holds: holds(w.Holders), Fence: w.Fence, Waiters: -1}
	if len(w.NameBase64) > 0 {
		out.Name = string(w.NameBase64)
	}
	if w.Permit != nil {
		out.Name = fast.SlotName(out.Name, *w.Permit)
	}
	return out
}

// question returns the state of the lock that keeps the question to the holder of the name. A server
// does not list it, because it lists the question with the name.
func (w *state) question() driver.State {
	name, a := w.state().Name, w.Asked
	h := holder{Host: a.Host, PID: a.PID, Label: strconv.FormatUint(a.Fence, 10) + " " + a.Reason, SinceMS: a.SinceMS}
	return driver.State{Name: fast.AskName(name), Holds: holds([]holder{h}), Waiters: -1}
}

// Inspect returns the state of a name; see driver.Admin.
func (s *Store) Inspect(ctx context.Context, name string) (driver.State, error) {
	if err := driver.CheckName(name, &s.g); err != nil {
		return driver.State{}, err
	}
	if s.g.Lacks&driver.AbilityInspect != 0 {
		return driver.State{}, errors.ErrUnsupported
	}
	return s.inspect(ctx, name)
}

func (s *Store) inspect(ctx context.Context, name string) (driver.State, error) {
	var out state
	if err := s.look(ctx, "status", named(name), &out); err != nil {
		return driver.State{}, err
	}
	found := out.state()
	found.Name = name
	return found, nil
}

// List returns the names that begin with prefix; see driver.Admin. A server lists at most 1,000
// names, and no lines for permits. If there are more, the error is errors.ErrUnsupported.
func (s *Store) List(ctx context.Context, prefix string) ([]driver.State, error) {
	if s.g.Lacks&driver.AbilityList != 0 {
		return nil, errors.ErrUnsupported
	}
	var body struct {
		Prefix       string `json:"prefix,omitempty"`
		PrefixBase64 []byte `json:"prefix_base64,omitempty"`
	}
	if isText(prefix) {
		body.Prefix = prefix
	} else {
		body.PrefixBase64 = []byte(prefix)
	}
	var out listed
	if err := s.look(ctx, "list", body, &out); err != nil {
		return nil, err
	}
	all := make([]driver.State, 0, len(out.Locks))
	for i := range out.Locks {
		all = append(all, out.Locks[i].state())
		if out.Locks[i].Asked != nil {
			all = append(all, out.Locks[i].question())
		}
	}
	if out.LeftOut > 0 {
		return all, fmt.Errorf("%w: the server lists %d names, and there are %d more; ask with a longer prefix", errors.ErrUnsupported, len(out.Locks), out.LeftOut)
	}
	return all, nil
}

// Break ends the holds of a name; see driver.Admin.
func (s *Store) Break(ctx context.Context, name string, seenFence uint64) (uint64, error) {
	if err := driver.CheckName(name, &s.g); err != nil {
		return 0, err
	}
	switch {
	case s.g.Lacks&driver.AbilityBreak != 0:
		return 0, errors.ErrUnsupported
	case seenFence == 0 || driver.CheckFence(seenFence) != nil:
		return 0, fmt.Errorf("%w: the name never has the fence %d over HTTP", driver.ErrLost, seenFence)
	}
	body := named(name)
	body.Fence = seenFence
	var out broken
	if err := s.change(ctx, "break", body, &out); err != nil {
		return 0, err
	}
	return *out.Fence, nil
}
