//go:build linux

package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/padlock-go/padlock/lab/bench/measure"
	"github.com/padlock-go/padlock/lab/bench/trial"
	"github.com/padlock-go/padlock/stores/sqlstore"
)

const (
	bare = "two statements"
	ours = "sqlstore"
)

// drains measures how fast a queue empties. Many waiters wait for one name that is held. In one row
// they are in one process, and in another row they are spread over 16 processes. Then the holder
// releases the name, and each waiter takes it once.
func (b *bench) drains() *measure.Experiment {
	e := &measure.Experiment{
		Name:    fmt.Sprintf("drain, %d waiters", b.plan.waiters),
		Columns: []measure.Column{{Name: "total_ms", Format: "%.1f"}, {Name: "hand p50 us", Format: "%.0f"}, {Name: "statements", Format: "%.2f"}},
	}
	for _, n := range []int{1, 16} {
		name := fmt.Sprintf("processes: %d", n)
		e.Rows = append(e.Rows, measure.Row{Name: name, Run: func() (measure.Figures, error) {
			return b.contend(crowd{engine: sqlstore.PostgreSQL, processes: n, push: true, waiters: b.plan.waiters}, b.plan.queued)
		}})
		e.Targets = append(e.Targets, measure.Target{Row: name, Column: "statements", AtMost: 4})
	}
	for _, n := range []int{2, 16} {
		e.Rows = append(e.Rows, measure.Row{Name: hopRow(n), Run: func() (measure.Figures, error) { return b.hop(n) }})
	}
	// Compare 16 processes of padlock with hand-overs without padlock, between 2 sessions and among
	// 16 sessions. At each hand-over, PostgreSQL wakes every session that listens. The comparison
	// with 2 sessions shows what it costs to wake the other sessions.
	for _, n := range []int{2, 16} {
		e.Targets = append(e.Targets, measure.Target{Row: "processes: 16", Column: "hand p50 us", Base: hopRow(n), AtMost: 1.5})
	}
	return e
}

// waiting measures many processes that take the same name again and again. Their waiters poll,
// because the database does not wake them.
func (b *bench) waiting() *measure.Experiment {
	name := fmt.Sprintf("processes: %d", b.plan.many)
	return &measure.Experiment{
		Name: "waiting, without notifications", Most: 1, // the figures are means over the time
		Columns: []measure.Column{{Name: "gap_ms", Format: "%.1f"}, {Name: "polls/s", Format: "%.1f"}},
		Rows: []measure.Row{{Name: name, Run: func() (measure.Figures, error) {
			return b.contend(crowd{engine: sqlstore.PostgreSQL, processes: b.plan.many, waiters: b.plan.many, section: b.plan.section}, b.plan.watched)
		}}},
		Targets: []measure.Target{{Row: name, Column: "gap_ms", AtMost: 50}, {Row: name, Column: "polls/s", AtMost: 25}},
	}
}

// waitingForFiles measures many processes that take the same name in SQLite again and again.
// Waiters in SQLite have to poll. The figures are the mean gap between two holds, the share of one
// processor that all processes use together, and the writes to the name's row per hand-over.
func (b *bench) waitingForFiles() *measure.Experiment {
	name := fmt.Sprintf("processes: %d", b.plan.many)
	return &measure.Experiment{
		Name: "waiting, SQLite", Most: 1,
		Columns: []measure.Column{{Name: "gap_ms", Format: "%.1f"}, {Name: "cpu %", Format: "%.1f"}, {Name: "writes", Format: "%.1f"}},
		Rows: []measure.Row{{Name: name, Run: func() (measure.Figures, error) {
			return b.contend(crowd{engine: sqlstore.SQLite, processes: b.plan.many, waiters: b.plan.many, section: b.plan.section}, b.plan.watched)
		}}},
	}
}

// drainsOfFiles measures how fast a queue in SQLite empties. The waiters are in one process, or in
// 16 processes.
func (b *bench) drainsOfFiles() *measure.Experiment {
	e := &measure.Experiment{
		Name:    fmt.Sprintf("drain, SQLite, %d waiters", b.plan.waiters),
		Columns: []measure.Column{{Name: "total_ms", Format: "%.1f"}, {Name: "hand p50 us", Format: "%.0f"}},
	}
	for _, n := range []int{1, 16} {
		e.Rows = append(e.Rows, measure.Row{Name: fmt.Sprintf("processes: %d", n), Run: func() (measure.Figures, error) {
			return b.contend(crowd{engine: sqlstore.SQLite, processes: n, waiters: b.plan.waiters}, b.plan.queued)
		}})
	}
	return e
}

// A contest is a group of waiters that compete for one name.
type contest struct {
	all      sync.WaitGroup // the waiters
	began    time.Time
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

// A crowd is a group of processes that compete for one name.
type crowd struct {
	engine    sqlstore.Engine
	processes int
	push      bool          // the database wakes waiters
	waiters   int           // of all processes together
	section   time.Duration // how long each waiter holds the lock
}

// contend lets the processes of a crowd compete for a name. If cr.section is 0, contend runs until
// each waiter has had the name once. Otherwise the contest lasts for span.
func (b *bench) contend(cr crowd, span time.Duration) (measure.Figures, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	n := cr.processes
	ps, err := b.processes(n+1, cr)
	defer closeAll(ps)
	if err != nil {
		return nil, err
	}
	for range warmUps {
		if cr.section > 0 {
			break
		}
		if _, err := b.drain(ctx, ps, cr, 0); err != nil {
			return nil, err
		}
	}
	if cr.section == 0 {
		return b.drain(ctx, ps, cr, span)
	}
	c, name, before, err := b.begin(ctx, ps, cr, span)
	if err != nil {
		return nil, err
	}
	time.Sleep(span)
	f, err := b.gapFigures(c, ps[n].db, cr, name, before)
	cancel()
	c.all.Wait()
	return f, err
}

// warmUps is how many queues are emptied before the measurement. On each connection, PostgreSQL
// plans a prepared statement anew for its first five executions. Planning takes longer than the
// statement itself, so it should be over before the measurement. The rows without padlock have
// many more warm-ups.
const warmUps = 16

// begin makes a crowd wait and then lets it go. First it acquires a new name. Then the waiters of
// the crowd queue up for that name. When all of them wait, begin releases the name.
func (b *bench) begin(ctx context.Context, ps []*process, cr crowd, span time.Duration) (c *contest, name string, before counts, err error) {
	last := ps[cr.processes]
	name = trial.NewName()
	first, err := last.locker.Acquire(ctx, name)
	if err != nil {
		return nil, "", before, err
	}
	c = &contest{section: cr.section}
	for i := range cr.waiters {
		c.all.Go(func() { c.turn(ctx, ps[i%cr.processes], name) })
	}
	time.Sleep(max(2*cr.section, min(span, time.Second)))
	if err := b.awaitQueue(ctx, last.db, cr, name); err != nil {
		return nil, "", before, err
	}
	if before, err = b.count(last.db, cr.engine, name); err != nil {
		return nil, "", before, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.began = time.Now()
	c.released = c.began
	return c, name, before, first.Release()
}

// drain lets each waiter of a crowd have the name once.
func (b *bench) drain(ctx context.Context, ps []*process, cr crowd, span time.Duration) (measure.Figures, error) {
	c, name, before, err := b.begin(ctx, ps, cr, span)
	if err != nil {
		return nil, err
	}
	c.all.Wait()
	took := time.Since(c.began)
	after, err := b.count(ps[cr.processes].db, cr.engine, name)
	return measure.Figures{
		"total_ms": measure.Millis(took), "hand p50 us": c.hands.Micros(0.5),
		"statements": (after.calls - before.calls) / float64(cr.waiters),
	}, errors.Join(err, c.err)
}

// awaitQueue returns when each process has a place in the queue of the name.
func (b *bench) awaitQueue(ctx context.Context, db *sql.DB, cr crowd, name string) error {
	query := "SELECT more FROM padlock_locks WHERE name = $1"
	for ctx.Err() == nil {
		var text string
		if err := db.QueryRowContext(ctx, query, []byte(name)).Scan(&text); err != nil {
			return err
		}
		var more struct {
			Queue []struct {
				Channel string `json:"c"`
			} `json:"queue"`
		}
		if text != "" {
			if err := json.Unmarshal([]byte(text), &more); err != nil {
				return err
			}
		}
		ready := 0
		for _, place := range more.Queue {
			if !cr.push || place.Channel != "" {
				ready++
			}
		}
		if ready == min(cr.processes, cr.waiters) {
			return nil
		}
		time.Sleep(20 * time.Millisecond)
	}
	return ctx.Err()
}

// counts are the counters of a contest at one moment.
type counts struct {
	at    time.Time
	calls float64 // statements for locks that PostgreSQL has run
	cpu   time.Duration
	row   float64 // changes of the name's row
}

func (b *bench) count(db *sql.DB, e sqlstore.Engine, name string) (c counts, err error) {
	if err := db.QueryRow("SELECT version FROM padlock_locks WHERE name = $1", []byte(name)).Scan(&c.row); err != nil {
		return c, err
	}
	if e == sqlstore.PostgreSQL {
		c.calls, err = b.calls()
	}
	c.cpu, c.at = measure.Used().CPU, time.Now()
	return c, err
}

// gapFigures returns the figures for waiters that poll. A hand-over itself needs three statements:
// the process that releases the lock reads and writes the table's row, and the process that gets
// the lock writes the row. All other statements count as polling.
func (b *bench) gapFigures(c *contest, db *sql.DB, cr crowd, name string, before counts) (measure.Figures, error) {
	c.mu.Lock()
	hands := slices.Clone(c.hands)
	c.mu.Unlock()
	after, err := b.count(db, cr.engine, name)
	n := float64(len(hands))
	gap := 0.0
	for _, h := range hands {
		gap += float64(h) / 1e6 / n
	}
	took := after.at.Sub(before.at)
	return measure.Figures{
		"gap_ms": gap, "polls/s": (after.calls - before.calls - 3*n) / took.Seconds(),
		"cpu %": 100 * (after.cpu - before.cpu).Seconds() / took.Seconds(), "writes": (after.row - before.row) / n,
	}, err
}

func (b *bench) processes(n int, cr crowd) (ps []*process, err error) {
	for range n {
		p, err := b.process(cr.engine, cr.push)
		if err != nil {
			return ps, err
		}
		ps = append(ps, p)
	}
	return ps, nil
}

func closeAll(ps []*process) {
	trial.Together(len(ps), func(i int) error { return ps[i].close() })
}
