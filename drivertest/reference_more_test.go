package drivertest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/padlock-go/padlock/driver"
)

// Inspect implements driver.Admin.
func (s *ref) Inspect(ctx context.Context, name string) (v driver.State, err error) {
	if err := driver.CheckName(name, &s.w.g); err != nil {
		return v, err
	}
	err = s.ask(ctx, func() error {
		e := s.w.entry(name)
		if v = s.w.state(e); s.is(inspectTakes) && e.fence == 0 {
			s.add(e, &driver.Request{Token: driver.TokenOf("inspector"), TTL: time.Minute}, time.Minute)
		}
		v.Name = name
		return nil
	})
	return v, err
}

func (w *world) state(e *entry) driver.State {
	v := driver.State{Name: e.name, Holds: w.reports(e, ""), Fence: e.fence, Waiters: len(e.queue)}
	if w.bug == pathPerProcess {
		v.Path = fmt.Sprint("/tmp/", w.foil.Add(1))
	}
	if w.bug == waitersUncounted {
		v.Waiters = 0
	}
	if w.bug == inspectTellsOldFence {
		v.Fence--
	}
	return v
}

// List implements driver.Admin.
func (s *ref) List(ctx context.Context, prefix string) (out []driver.State, err error) {
	err = s.ask(ctx, func() error {
		for _, e := range s.w.names {
			v := s.w.state(e)
			match := strings.HasPrefix(e.name, prefix)
			if s.is(listMatchesPatterns) {
				match, _ = path.Match(prefix+"*", strings.ReplaceAll(e.name, "/", "-"))
			}
			busy := len(v.Holds) > 0 || v.Waiters > 0 || s.is(listTellsFreeNames)
			if busy && (match || s.is(listIgnoresPrefix)) {
				out = append(out, v)
				if s.is(listRepeats) {
					out = append(out, v)
				}
			}
			if s.is(listStopsAtHundred) && len(out) == 100 {
				break
			}
		}
		return nil
	})
	return out, err
}

// Break implements driver.Admin.
func (s *ref) Break(ctx context.Context, name string, seen uint64) (fence uint64, err error) {
	if err := driver.CheckName(name, &s.w.g); err != nil {
		return 0, err
	}
	err = s.ask(ctx, func() error {
		e := s.w.entry(name)
		if e.fence != seen && !s.is(breaksAnything) {
			return driver.ErrLost
		}
		if s.w.usedUp(e) {
			return driver.ErrFencesUsedUp
		}
		for _, h := range e.holds {
			e.past[h.token] = driver.OutcomeTaken
		}
		if s.is(breakEndsOneReader) && len(e.holds) > 1 {
			e.holds = e.holds[1:]
		} else {
			e.holds = nil
		}
		if !s.is(breakLeavesCoolDown) {
			e.cooling = time.Time{}
		}
		if fence = e.fence; !s.is(breakMintsNothing) {
			fence = s.w.mint(e, 0)
		}
		if !s.is(breakWakesNobody) {
			e.signal()
		}
		return nil
	})
	return fence, err
}

// RaiseFence implements driver.FenceRaiser.
func (s *ref) RaiseFence(ctx context.Context, name, token string, fence uint64) error {
	if err := s.check(name, token, "", 0); err != nil {
		return err
	}
	if fence >= driver.MaxFence && !s.is(raisesTooFar) {
		return fmt.Errorf("%w: fence is not below 2^53", driver.ErrInvalid)
	}
	return s.ask(ctx, func() error {
		e := s.w.entry(name)
		h, err := s.w.find(e, token)
		switch {
		case err != nil && !s.is(raiseNeverFails):
			return err
		case err != nil || s.is(raiseDoesNothing):
		case s.is(raiseLowers):
			h.fence, e.fence = fence, fence
		default:
			h.fence, e.fence = max(h.fence, fence), max(e.fence, fence)
		}
		return nil
	})
}

// Status implements driver.Reporter.
func (s *ref) Status(ctx context.Context) ([]driver.Finding, error) {
	found := driver.Finding{Name: "uptime", Value: driver.Unknown}
	if s.is(statusWithoutValue) {
		found.Value = ""
	}
	return []driver.Finding{found}, s.ask(ctx, func() error { return nil })
}

// StoreID implements driver.Places.
func (s *ref) StoreID(ctx context.Context) (id string, err error) {
	err = s.ask(ctx, func() error { id = fmt.Sprint("reference-", s.w.starts); return nil })
	switch {
	case s.is(lackUntold):
		return "", errors.ErrUnsupported
	case s.is(idPerProcess):
		id = fmt.Sprintf("reference-%p", s)
	case s.is(idIsAnAddress):
		id = "user:secret@host"
	}
	return id, err
}

// Location implements driver.Places.
func (s *ref) Location(name string) (string, error) {
	if err := driver.CheckName(name, &s.w.g); err != nil {
		return "", err
	}
	if s.is(locationOfAll) {
		return "here", nil
	}
	return name, nil
}

// SamePlace implements driver.Places.
func (s *ref) SamePlace(other driver.Store) bool {
	if s.is(placeIsAnywhere) {
		return true
	}
	o, ok := other.(interface{ world() *world })
	return ok && o.world() == s.w
}

func (s *ref) world() *world { return s.w }

// harness opens stores on w and has every hook.
func (w *world) harness() Harness {
	open := w.open
	if w.passes {
		open = w.openRelay
	}
	return Harness{
		Open: open, Restart: w.restart, Foreign: w.foreign, Pause: w.pause, Full: w.fill, FullSays: "memory",
		CutConnection: func(s driver.Store) error { return w.cut(refOf(s)) },
		SkewClock:     func(d time.Duration) error { w.skew.Store(int64(d)); return nil },
		LoseReply:     func(s driver.Store) error { refOf(s).lose.Store(true); return nil },
	}
}

func (w *world) fill(on bool) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.full = on
	return nil
}

func (w *world) isFull() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.full
}

func (w *world) restart(keepData bool) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !keepData || w.bug == idChangesAtRestart {
		w.starts++
	}
	for name, e := range w.names {
		if !keepData || w.bug == restartLosesAll {
			delete(w.names, name)
			e.signal()
		}
	}
	return nil
}

func (w *world) cut(s *ref) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.g.Bound != driver.BoundToNothing || w.bug == cutDropsHolds {
		w.dropAll(s)
	}
	if w.bug != boundOutlivesCut || w.silent != nil {
		s.unbind(context.DeadlineExceeded)
		s.bound, s.unbind = context.WithCancelCause(context.Background())
	}
	s.lose.Store(w.bug == errorBecomesHeld)
	return nil
}

func (w *world) dropAll(s *ref) {
	for _, e := range w.names {
		for _, h := range e.holds {
			if h.owner == s {
				w.drop(e, h.token, driver.OutcomeTaken)
			}
		}
		e.signal()
	}
}

// pause makes the server silent. Requests then wait in silence.
func (w *world) pause() (resume func() error, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	silent := make(chan struct{})
	w.silent = silent
	var cuts sync.WaitGroup
	if w.g.Bound == driver.BoundToConnection && w.bug != boundOutlivesSilence {
		for _, s := range w.opens {
			cuts.Add(1)
			time.AfterFunc(w.g.LossDelay, func() { w.cut(s); cuts.Done() })
		}
	}
	return func() error {
		cuts.Wait() // otherwise a late cut would end holds of the next case
		w.mu.Lock()
		defer w.mu.Unlock()
		w.silent = nil
		close(silent)
		return nil
	}, nil
}

func (w *world) silence() error {
	w.mu.Lock()
	silent := w.silent
	w.mu.Unlock()
	if silent == nil {
		return nil
	}
	limit := time.After(driver.MaxSilence)
	if w.bug == waitsForTheSilent {
		limit = nil
	}
	select {
	case <-silent:
		return nil
	case <-limit:
		return driver.ErrUncertain
	}
}

func (w *world) foreign(name string) (release func() error, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	e, h := w.entry(name), &hold{token: "foreign", since: w.now(), until: w.now().Add(time.Hour)}
	if e.holds = []*hold{h}; w.bug == foreignersUnmarked {
		h.owner = &ref{}
	}
	return func() error {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.drop(e, h.token, driver.OutcomeGone)
		e.signal()
		return nil
	}, nil
}

// passer is a store whose holds are carried by the write end of a pipe.
type passer struct{ *ref }

// File implements fast.FileSharer.
func (s passer) File(name, token string) (*os.File, error) {
	if err := s.check(name, token, "", 0); err != nil {
		return nil, err
	}
	if err := s.travel(context.Background()); err != nil {
		return nil, err
	}
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	e := s.w.entry(name)
	h, err := s.w.find(e, token)
	if err != nil && s.is(fileForAnybody) {
		return os.Open(os.DevNull)
	}
	if err != nil {
		return nil, err
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	if s.is(fileUnmarked) {
		r.Close()
		return w, nil
	}
	child := &hold{owner: s.ref, token: "child of " + token, shared: true, since: h.since}
	h.shared = true // so that both holds can exist
	e.holds = append(e.holds, child)
	go func() {
		r.Read(make([]byte, 1)) // returns when the last copy is closed
		r.Close()
		s.w.mu.Lock()
		defer s.w.mu.Unlock()
		child.until = s.w.now().Add(-time.Second)
		e.signal()
	}()
	return w, nil
}

// Release implements driver.Store.
func (s passer) Release(ctx context.Context, name, token string, keep time.Duration) (driver.Outcome, error) {
	o, err := s.ref.Release(ctx, name, token, keep)
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	for _, h := range s.w.entry(name).holds {
		if h.token == "child of "+token && s.w.lives(h) && o == driver.OutcomeReleased {
			return driver.OutcomeInherited, err
		}
	}
	return o, err
}

func (w *world) openPasser(ctx context.Context) (driver.Store, error) {
	s, err := w.open(ctx)
	return passer{s.(*ref)}, err
}

func refOf(s driver.Store) *ref {
	switch s := s.(type) {
	case passer:
		return s.ref
	case relay:
		return s.ref
	}
	return s.(*ref)
}

// byWallClock makes the server judge leases by a clock that SkewClock sets.
func (w *world) byWallClock() {
	w.now = func() time.Time { return time.Now().Add(time.Duration(w.skew.Load())) }
}

// misjudge drops the holds whose leases have ended by the clock of the client.
func (s *ref) misjudge(e *entry) {
	if s.is(clientsJudge) {
		e.holds = slices.DeleteFunc(e.holds, func(h *hold) bool { return !h.until.After(time.Now()) })
	}
}
