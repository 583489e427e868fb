//go:build linux

package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/integration/bench/measure"
	"github.com/padlock-go/padlock/sqlstore"
)

const (
	bare    = "two statements"
	ours    = "sqlstore"
	waiting = "waiting, without notifications"
)

func (b *bench) experiments() []*measure.Experiment {
	return []*measure.Experiment{
		b.pairs(sqlstore.PostgreSQL), b.pairs(sqlstore.SQLite),
		b.drains(), b.waiting(),
	}
}

// pairs measures how long it takes to acquire and release a name that nobody else wants.
func (b *bench) pairs(e sqlstore.Engine) *measure.Experiment {
	row := func(name string, make func(*sql.DB) (func(context.Context) error, error)) measure.Row {
		return measure.Row{Name: name, Run: func() (measure.Figures, error) { return b.pair(e, make) }}
	}
	return &measure.Experiment{
		Name:    "pair, " + e.String(),
		Columns: []measure.Column{{Name: "us", Format: "%.1f"}, {Name: "p50 us", Format: "%.1f"}, {Name: "client us", Format: "%.1f"}},
		Rows: []measure.Row{
			row(bare, func(db *sql.DB) (func(context.Context) error, error) { return bareLease(db, e) }),
			row(ours, func(db *sql.DB) (func(context.Context) error, error) { return oursPair(db, e) }),
		},
		Base: bare, Ratio: "p50 us",
		Targets: []measure.Target{{Row: ours, Column: "p50 us", Base: bare, AtMost: 1.3}},
	}
}

func (b *bench) pair(e sqlstore.Engine, make func(*sql.DB) (func(context.Context) error, error)) (f measure.Figures, err error) {
	db, err := b.open(e, 4)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	once, err := make(db)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for range 50 {
		if err := once(ctx); err != nil {
			return nil, err
		}
	}
	var times measure.Times
	before, start := measure.Used(), time.Now()
	for last := start; time.Since(start) < b.plan.trial; {
		if err := once(ctx); err != nil {
			return nil, err
		}
		now := time.Now()
		times = append(times, int64(now.Sub(last)))
		last = now
	}
	took, n := time.Since(start), float64(len(times))
	return measure.Figures{
		"us": float64(took.Microseconds()) / n, "p50 us": times.Micros(0.5),
		"client us": float64((measure.Used().CPU - before.CPU).Microseconds()) / n,
	}, nil
}

// bareLease makes the smallest possible lease with a fence. It uses two prepared statements that
// change one row, and the server's clock.
func bareLease(db *sql.DB, e sqlstore.Engine) (func(context.Context) error, error) {
	clock, params := "(date_part('epoch', clock_timestamp()) * 1000000)::bigint", []any{"$1", "$2", "$3", "$4"}
	blob := "bytea"
	if e == sqlstore.SQLite {
		clock, params, blob = "CAST(ROUND((julianday('now') - 2440587.5) * 86400000) AS INTEGER) * 1000", []any{"?1", "?2", "?3", "?4"}, "blob"
	}
	for _, text := range []string{
		"CREATE TABLE IF NOT EXISTS bare (name " + blob + " PRIMARY KEY, fence bigint NOT NULL, token " + blob + " NOT NULL, ends bigint NOT NULL, holder text NOT NULL)",
		"INSERT INTO bare VALUES ('name', 0, '', 0, '') ON CONFLICT (name) DO NOTHING",
	} {
		if _, err := db.Exec(text); err != nil {
			return nil, err
		}
	}
	if _, err := db.Exec(fmt.Sprintf("UPDATE bare SET token = %[1]s, name = %[2]s", params...), []byte{}, []byte("name")); err != nil {
		return nil, err
	}
	take, err := db.Prepare(fmt.Sprintf("UPDATE bare SET fence = fence + 1, token = %[1]s, ends = "+clock+" + %[2]s, holder = %[3]s WHERE name = %[4]s AND length(token) = 0 RETURNING fence", params...))
	if err != nil {
		return nil, err
	}
	give, err := db.Prepare(fmt.Sprintf("UPDATE bare SET token = %[1]s, ends = 0, holder = '' WHERE name = %[2]s AND token = %[3]s AND ends > "+clock, params[:3]...))
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) error {
		var fence int64
		if err := take.QueryRowContext(ctx, []byte("token"), int64(60_000_000), "host.example 4711", []byte("name")).Scan(&fence); err != nil {
			return err
		}
		_, err := give.ExecContext(ctx, []byte{}, []byte("name"), []byte("token"))
		return err
	}, nil
}

func oursPair(db *sql.DB, e sqlstore.Engine) (func(context.Context) error, error) {
	s, err := sqlstore.Open(context.Background(), db, e)
	if err != nil {
		return nil, err
	}
	r := driver.Request{Name: "pair", Token: "token", TTL: time.Minute, Holder: driver.Holder{Host: "host.example", PID: 4711}}
	return func(ctx context.Context) error {
		if _, err := s.Acquire(ctx, r); err != nil {
			return err
		}
		out, err := s.Release(ctx, r.Name, r.Token, 0)
		if err == nil && out != driver.Released {
			err = fmt.Errorf("release found %d", out)
		}
		return err
	}, nil
}

// drains measures how fast a queue empties. The waiters of one process, and of 16, wait for a name
// that is held. Then the holder releases the name, and each waiter takes it once.
func (b *bench) drains() *measure.Experiment {
	e := &measure.Experiment{
		Name:    fmt.Sprintf("drain, %d waiters", b.plan.waiters),
		Columns: []measure.Column{{Name: "total_ms", Format: "%.1f"}, {Name: "hand p50 us", Format: "%.0f"}, {Name: "statements", Format: "%.2f"}},
	}
	for _, n := range []int{1, 16} {
		name := fmt.Sprintf("processes: %d", n)
		e.Rows = append(e.Rows, measure.Row{Name: name, Run: func() (measure.Figures, error) {
			return b.contend(n, true, b.plan.waiters, 0, b.plan.queued)
		}})
		e.Targets = append(e.Targets, measure.Target{Row: name, Column: "statements", AtMost: 4})
	}
	return e
}

// waiting measures many processes that take turns for a while. The database does not wake them.
func (b *bench) waiting() *measure.Experiment {
	name := fmt.Sprintf("processes: %d", b.plan.many)
	return &measure.Experiment{
		Name:    waiting,
		Columns: []measure.Column{{Name: "gap_ms", Format: "%.1f"}, {Name: "polls/s", Format: "%.1f"}},
		Rows: []measure.Row{{Name: name, Run: func() (measure.Figures, error) {
			return b.contend(b.plan.many, false, b.plan.many, b.plan.section, b.plan.watched)
		}}},
		Targets: []measure.Target{{Row: name, Column: "gap_ms", AtMost: 50}, {Row: name, Column: "polls/s", AtMost: 25}},
	}
}

// A contest is a number of waiters for one name.
type contest struct {
	mu       sync.Mutex
	released time.Time
	hands    measure.Times
	err      error
	section  time.Duration
}

// turn acts as one waiter, which takes the name once.
func (c *contest) turn(ctx context.Context, p *process, name string) {
	lock, err := p.locker.Acquire(ctx, name)
	got := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		if ctx.Err() == nil {
			c.err = err
		}
		return
	}
	c.hands = append(c.hands, int64(got.Sub(c.released)))
	if c.section > 0 {
		select {
		case <-ctx.Done():
		case <-time.After(c.section):
		}
	}
	c.released = time.Now()
	c.err = errors.Join(c.err, lock.Release())
}

// contend lets n processes contend for a name. waiters is the number of waiters of all processes
// together. Without sections, contend runs until each waiter has had the name once. With sections,
// it runs for span.
func (b *bench) contend(n int, push bool, waiters int, section, span time.Duration) (measure.Figures, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	ps, err := b.processes(n+1, push)
	defer closeAll(ps)
	if err != nil {
		return nil, err
	}
	name := b.name()
	first, err := ps[n].locker.Acquire(ctx, name)
	if err != nil {
		return nil, err
	}
	c := &contest{section: section}
	var all sync.WaitGroup
	for i := range waiters {
		all.Go(func() { c.turn(ctx, ps[i%n], name) })
	}
	time.Sleep(max(2*section, min(span, time.Second)))
	before, err := b.calls()
	if err != nil {
		return nil, err
	}
	start := time.Now()
	c.mu.Lock()
	c.released = start
	err = first.Release()
	c.mu.Unlock()
	if section > 0 {
		time.Sleep(span)
		c.mu.Lock()
		hands := slices.Clone(c.hands)
		c.mu.Unlock()
		f, err := b.gaps(hands, before, time.Since(start), err)
		cancel()
		all.Wait()
		return f, err
	}
	all.Wait()
	took := time.Since(start)
	after, bad := b.calls()
	return measure.Figures{
		"total_ms": float64(took.Microseconds()) / 1000, "hand p50 us": c.hands.Micros(0.5), "statements": (after - before) / float64(waiters),
	}, errors.Join(err, bad, c.err)
}

// gaps returns the figures for waiters that poll. For each hand-over, the release reads and writes
// the row, and the claim writes it. All other statements count as polling.
func (b *bench) gaps(hands measure.Times, before float64, took time.Duration, err error) (measure.Figures, error) {
	after, bad := b.calls()
	gap := 0.0
	for _, h := range hands {
		gap += float64(h) / 1e6 / float64(len(hands))
	}
	polls := after - before - 3*float64(len(hands))
	return measure.Figures{"gap_ms": gap, "polls/s": polls / took.Seconds()}, errors.Join(err, bad)
}

func (b *bench) processes(n int, push bool) (ps []*process, err error) {
	for range n {
		p, err := b.process(push)
		if err != nil {
			return ps, err
		}
		ps = append(ps, p)
	}
	return ps, nil
}

func closeAll(ps []*process) {
	var all sync.WaitGroup
	for _, p := range ps {
		all.Go(func() { p.close() })
	}
	all.Wait()
}
