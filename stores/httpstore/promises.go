package httpstore

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/httpapi"
	"github.com/padlock-go/padlock/storekit"
)

// kind is the kind of this store in its promises.
const kind = "http"

// least returns what every server can keep.
func least() driver.Guarantees {
	return driver.Guarantees{
		Store: kind, Lease: true, MaxTTL: longest(driver.DefaultMaxTTL), MaxLabel: 256,
		DeadWaiter: driver.DefaultMaxTTL + grace,
		Lacks:      driver.AbilityBreak | driver.AbilityFenceRaiser,
		Notes:      []string{"The store was opened without asking a server, so it promises only what every server can keep."},
	}
}

// promises is what a server says about its store.
type promises struct{ httpapi.Promises }

func (p *promises) complete() bool { return p.Store != "" }

var (
	fences = map[string]driver.Fence{"none": driver.FenceNone, "session": driver.FenceSession, "durable": driver.FenceDurable}
	levels = map[string]driver.Promise{"no": driver.PromiseNo, "partly": driver.PromisePartly, "yes": driver.PromiseYes}
)

// guarantees returns what is left of the promises over HTTP. There is no order: each server has a
// line of its own for the callers that wait in it.
func (p *promises) guarantees() driver.Guarantees {
	most := max(0, duration(p.MaxTTLMS))
	if most == 0 {
		most = driver.MaxTTL
	}
	g := driver.Guarantees{
		Store: kind, Lease: true, Fence: fences[p.Fence], SharedFence: levels[p.SharedFence],
		SurvivesRestart: levels[p.SurvivesRestart], SurvivesFailover: levels[p.SurvivesFailover],
		SafeClockJump: levels[p.SafeClockJump], SafeEviction: levels[p.SafeEviction],
		MinTTL: max(0, duration(p.MinTTLMS)), MaxTTL: longest(most), MaxName: p.MaxName, MaxLabel: p.MaxLabel,
		Shared: p.Shared, CoolDown: p.CoolDown, Observed: p.Observed, Hashed: p.Hashed,
		DeadWaiter: most + grace,
		Notes:      append([]string{fmt.Sprintf("The promises are those of the store behind the server, of the kind %q.", p.Store)}, p.Notes...),
	}
	for ability, has := range map[driver.Ability]bool{
		driver.AbilityInspect: p.Status, driver.AbilityList: p.List, driver.AbilityBreak: p.Break, driver.AbilityFenceRaiser: p.RaiseFence, driver.AbilityStoreID: p.ID != "",
	} {
		if !has {
			g.Lacks |= ability
		}
	}
	return g
}

// described is the answer of one server to the question for its promises.
type described struct {
	promises
	took time.Duration
	err  error
}

// describeAll asks each server for its promises.
func (s *Store) describeAll(ctx context.Context) []described {
	ctx, cancel := context.WithTimeout(ctx, storekit.Patience)
	defer cancel()
	all := make([]described, len(s.servers))
	var wg sync.WaitGroup
	for i, server := range s.servers {
		wg.Go(func() {
			start := s.clock.Now()
			a, err := send(ctx, server, "store", []byte("{}"))
			all[i].took = s.clock.Now().Sub(start)
			if err == nil && a.status != http.StatusOK {
				err = a.err()
			}
			if err == nil {
				err = a.read(&all[i].promises)
			}
			all[i].err = err
		})
	}
	wg.Wait()
	return all
}

// learn asks the servers what their store promises.
func (s *Store) learn(ctx context.Context) error {
	known := false
	all := s.describeAll(ctx)
	for i := range all {
		switch d := &all[i]; {
		case d.err != nil, known && d.ID == "": // a server that cannot reach its store does not know the id
		case known && s.id != "" && d.ID != s.id:
			return storekit.Invalidf("the servers %s and %s keep their locks in different stores, or one of them has names of its own for this client; name servers of one store", s.servers[s.first.Load()].Base.Host, s.servers[i].Base.Host)
		case !known || s.id == "":
			known, s.id, s.g = true, d.ID, d.guarantees()
			s.first.Store(int32(i))
		}
	}
	if known {
		return nil
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	err := all[0].err
	if errors.Is(err, errors.ErrUnsupported) || errors.Is(err, driver.ErrInvalid) {
		return storekit.Invalidf("%s", err)
	}
	return fmt.Errorf("%w: %s", driver.ErrUnavailable, err)
}

// StoreID returns the id of the store behind the servers; see driver.Places.
func (s *Store) StoreID(ctx context.Context) (string, error) {
	if s.g.Lacks&driver.AbilityStoreID != 0 {
		return "", errors.ErrUnsupported
	}
	var p promises
	if err := s.look(ctx, "store", struct{}{}, &p); err != nil {
		return "", err
	}
	if p.ID == "" {
		return "", fmt.Errorf("%w: the server does not know the id of its store now", driver.ErrUnavailable)
	}
	return p.ID, nil
}

// Location implements driver.Places. Two names that share a lock in a store with
// Guarantees.Hashed are not known here.
func (s *Store) Location(name string) (string, error) { return name, driver.CheckName(name, &s.g) }

// SamePlace implements driver.Places: it compares the ids of the stores if both are known, and
// otherwise the servers.
func (s *Store) SamePlace(other driver.Store) bool {
	o, ok := other.(*Store)
	if !ok {
		return false
	}
	if s.id != "" && s.id == o.id {
		return true
	}
	for _, mine := range s.servers {
		if slices.ContainsFunc(o.servers, func(c server) bool { return c.Base.Host == mine.Base.Host }) {
			return true
		}
	}
	return false
}

// Status reports whether each server answers, and whether they offer the same store; see
// driver.Reporter.
func (s *Store) Status(ctx context.Context) ([]driver.Finding, error) {
	if err := s.calls.Begin(ctx); err != nil {
		return nil, err
	}
	defer s.calls.Work.Done()
	var all []driver.Finding
	var err error
	id, answered := "", false
	for i, d := range s.describeAll(ctx) {
		f := driver.Finding{Name: s.servers[i].Base.Host + " server", Value: driver.Unknown}
		switch {
		case d.err != nil:
			err = d.err
			f.Advice = fmt.Sprintf("it does not answer as it should: %v", d.err)
		case id != "" && d.ID != "" && d.ID != id:
			answered = true
			f.Value = d.Store
			f.Advice = "its locks are in another store than those of the servers before it: a name can have two holders"
		default:
			answered = true
			if id == "" {
				id = d.ID
			}
			if d.ID == "" && len(s.servers) > 1 {
				f.Advice = "it is not known whether its locks are in the store of the other servers: it has no id of its store, or cannot reach it now"
			}
			f.Value = fmt.Sprintf("a server of padlock, for a store of the kind %s, answers in %v", d.Store, d.took.Round(100*time.Microsecond))
		}
		all = append(all, f)
	}
	if answered {
		return all, nil
	}
	return nil, fmt.Errorf("%w: %w", driver.ErrUnavailable, err)
}
