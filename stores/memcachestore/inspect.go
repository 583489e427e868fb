package memcachestore

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"time"

	"github.com/padlock-go/padlock/driver"
)

// Inspect implements driver.Admin.
func (s *Store) Inspect(ctx context.Context, name string) (driver.State, error) {
	state := driver.State{Name: name, Waiters: -1}
	if err := driver.CheckName(name, &s.guarantees); err != nil {
		return state, err
	}
	i, err := s.read(ctx, s.keyFor(name))
	if i != nil {
		state.Holds = []driver.Hold{s.holdOf(i, time.Now())}
	}
	return state, err
}

// List implements driver.Admin. memcached does not list its keys reliably, and the keys are hashes.
func (s *Store) List(context.Context, string) ([]driver.State, error) {
	return nil, errors.ErrUnsupported
}

// Break implements driver.Admin. Without fences, it could end another hold than the one that was
// seen.
func (s *Store) Break(context.Context, string, uint64) (uint64, error) {
	return 0, errors.ErrUnsupported
}

// StoreID implements driver.Places. An eviction would give the same server another id.
func (s *Store) StoreID(context.Context) (string, error) { return "", errors.ErrUnsupported }

// Location implements driver.Places: each name has a key of its own.
func (s *Store) Location(name string) (string, error) {
	return name, driver.CheckName(name, &s.guarantees)
}

// SamePlace implements driver.Places. It compares the addresses of the servers.
func (s *Store) SamePlace(other driver.Store) bool {
	o, ok := other.(*Store)
	return ok && o.client.config.Addr == s.client.config.Addr && o.client.config.Socket == s.client.config.Socket
}

const (
	adviceBestEffort = "memcached is a cache: a restart or an eviction frees held names, and there are no fences. Keep locks that protect data in Redis, a database or files."
	adviceEvicted    = "the server has dropped values to make room, so it may have dropped locks: give it more memory (-m), or use one server for locks alone"
)

// Status implements driver.Reporter.
func (s *Store) Status(ctx context.Context) ([]driver.Finding, error) {
	stats, err := s.stats(ctx)
	if err != nil {
		return nil, err
	}
	found := []driver.Finding{
		{Name: "reliability", Value: "best effort", Advice: adviceBestEffort},
		finding("version", stats["version"]),
		finding("evictions", stats["evictions"]),
	}
	if n := stats["evictions"]; n != "" && n != "0" {
		found[2].Advice = adviceEvicted
	}
	return found, nil
}

func finding(name, value string) driver.Finding {
	return driver.Finding{Name: name, Value: cmp.Or(value, driver.Unknown)}
}

func (s *Store) stats(ctx context.Context) (map[string]string, error) {
	r, err := s.client.roundTrip(ctx, []byte("stats\r\n"))
	if err != nil {
		return nil, failure(ctx, err, false)
	}
	if r.word != "STAT" {
		return nil, refusal(r)
	}
	values := map[string]string{}
	for _, line := range r.stats {
		if fields := strings.SplitN(line, " ", 3); len(fields) == 3 {
			values[fields[1]] = fields[2]
		}
	}
	return values, nil
}
