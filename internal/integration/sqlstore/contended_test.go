package sqlstore_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/safety"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/stores/sqlstore"
)

// A faulty listener counts its connections, and can ignore notifications.
type faulty struct {
	listener
	deaf    atomic.Bool
	ignored atomic.Int64
	ready   atomic.Int64
	channel atomic.Value
}

func (l *faulty) Listen(ctx context.Context, channel string, ready func(), woken func(string)) error {
	l.channel.Store(channel)
	return l.listener.Listen(ctx, channel, func() { l.ready.Add(1); ready() }, func(payload string) {
		if l.deaf.Load() {
			l.ignored.Add(1)
			return
		}
		woken(payload)
	})
}

// pushed makes a party that PostgreSQL notifies.
func (d database) pushed(t *testing.T, opts ...sqlstore.Option) (*party, *faulty) {
	t.Helper()
	db, err := d.pool()
	noError(t, err)
	l := &faulty{listener: listener{d.dsn, new(atomic.Int64)}}
	s, err := sqlstore.Open(t.Context(), db, d.engine, append(opts, sqlstore.Notify(l))...)
	noError(t, err)
	t.Cleanup(func() {
		s.Close()
		db.Close()
	})
	return &party{db: db, store: s}, l
}

// A place is a waiter in the form in which the table contains it.
type place struct {
	Channel string `json:"c"`
}

// queue waits until a name has n places of waiters that the database wakes.
func (p *party) queue(t *testing.T, name string, n int) {
	t.Helper()
	for {
		var text string
		noError(t, p.db.QueryRow("SELECT more FROM padlock_locks WHERE name = $1", []byte(name)).Scan(&text))
		var more struct {
			Queue []place `json:"queue"`
		}
		if text != "" {
			noError(t, json.Unmarshal([]byte(text), &more))
		}
		woken := 0
		for _, place := range more.Queue {
			if place.Channel != "" {
				woken++
			}
		}
		if woken == n {
			return
		}
		<-time.After(5 * time.Millisecond)
	}
}

// lineUp starts a waiter and returns when it is in the queue, which has n waiters then.
func (p *party) lineUp(t *testing.T, name, token string, n int, got chan<- grant) {
	t.Helper()
	p.waits(t, driver.Request{Name: name, Token: driver.TokenOf(token)}, got)
	p.queue(t, name, n)
}

// waits starts a waiter, which gets the name in its turn and keeps it. The first grant of all
// waiters is the first one in the channel.
func (p *party) waits(t *testing.T, r driver.Request, got chan<- grant) {
	go func() {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		r.TTL = time.Minute
		one := grant{waiter: r.Token.Text()}
		for try := 0; one.err == nil && one.reserved.TTL == 0; try++ { // a place that has lapsed ends a Wait
			r.Token = driver.TokenOf(fmt.Sprint(r.Name, " ", one.waiter, "#", try)) // a token is in one wait at a time
			one.reserved, one.err = p.store.Wait(ctx, r, true)
		}
		if one.token = r.Token.Text(); one.err == nil {
			one.g, one.err = p.store.Acquire(ctx, r)
		}
		got <- one
	}()
}

// A grant is the result of a waiter.
type grant struct {
	waiter, token string
	reserved, g   driver.Grant
	err           error
}

// A handOver is one release while others wait.
type handOver struct {
	name    string
	keep    time.Duration // the cool-down
	waiters []driver.Request
	before  func(t *testing.T, a *party, name string) // between the last join and the release
	tokens  []string                                  // of the holders afterwards
}

var handOvers = []handOver{
	{name: "to a writer", waiters: []driver.Request{{Token: driver.TokenOf("b")}, {Token: driver.TokenOf("c")}}, tokens: []string{"b"}},
	{name: "to readers together", waiters: []driver.Request{{Token: driver.TokenOf("r1"), Shared: true}, {Token: driver.TokenOf("r2"), Shared: true}, {Token: driver.TokenOf("w")}}, tokens: []string{"r1", "r2"}},
	{name: "to a waiter with a high fence", waiters: []driver.Request{{Token: driver.TokenOf("b"), FenceAbove: 1 << 52}}, tokens: []string{"b"}},
	{name: "with a label that jsonb refuses", waiters: []driver.Request{{Token: driver.TokenOf("b"), Holder: driver.Holder{Label: "a\x00b"}}, {Token: driver.TokenOf("c")}}, tokens: []string{"b"}},
	{
		name: "past a place that lapsed", waiters: []driver.Request{{Token: driver.TokenOf("b")}, {Token: driver.TokenOf("c")}}, tokens: []string{"c"},
		before: func(t *testing.T, a *party, name string) { a.setMore(t, name, "queue,0,u") },
	},
	{
		name: "while a cool-down of before is over", waiters: []driver.Request{{Token: driver.TokenOf("b")}}, tokens: []string{"b"},
		before: func(t *testing.T, a *party, name string) { a.setMore(t, name, "cool") },
	},
	{name: "not before the name may be free", keep: 700 * time.Millisecond, waiters: []driver.Request{{Token: driver.TokenOf("b")}}, tokens: []string{"b"}},
}

// TestContended: processes that PostgreSQL notifies want one name.
func TestContended(t *testing.T) {
	server.Thorough(t)
	t.Parallel()
	d := database{"pgx", server.Postgres(t, server.PostgresOptions{Args: []string{"-c", "max_connections=300"}}).URL(), sqlstore.PostgreSQL}
	d.keepReservations(t)
	for what, run := range map[string]func(*testing.T, database){
		"hand-overs": handOversTo, "under a transaction": handOverUnderATransaction, "pass": passWhileOthersWait,
		"a notification is lost": lostNotification, "the listening connection ends": listeningConnectionEnds,
		"the reply is lost":              lostReply,
		"the reply to the claim is lost": lostClaim,
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			run(t, d)
		})
	}
}

// handOversTo checks who gets the name, and with which fence, when a holder releases it.
func handOversTo(t *testing.T, d database) {
	a, _ := d.pushed(t)
	b, _ := d.pushed(t)
	for _, h := range handOvers {
		t.Run(h.name, func(t *testing.T) {
			t.Parallel()
			h.run(t, a, b, reservedLong+h.name)
		})
	}
}

// reservedLong is the beginning of the names for which keepReservations is meant.
const reservedLong = "reserved for long: "

// keepReservations makes the database keep the reservations of some names for a minute, so that no
// waiter is too late for one, even on a machine that stands still for a while.
func (d database) keepReservations(t *testing.T) {
	t.Helper()
	p := d.party(t)
	for _, query := range []string{
		`CREATE FUNCTION keep_reservation() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			IF NEW.reserved = 1 THEN NEW.until := NEW.since + 60000000; END IF;
			IF NEW.more ~ '"r": ?true' THEN
				NEW.more := jsonb_set(NEW.more::jsonb, '{holds}', (SELECT jsonb_agg(CASE WHEN h ? 'r' THEN jsonb_set(h, '{u}', to_jsonb((h->>'b')::bigint + 60000000)) ELSE h END)
					FROM jsonb_array_elements(NEW.more::jsonb->'holds') h))::text;
			END IF;
			RETURN NEW;
		END $$`,
		"CREATE TRIGGER keep_reservation BEFORE UPDATE ON padlock_locks FOR EACH ROW WHEN (NEW.name LIKE '" + reservedLong + "%') EXECUTE FUNCTION keep_reservation()",
	} {
		_, err := p.db.Exec(query)
		noError(t, err)
	}
}

// setMore sets a time in the column "more" to 1.
func (p *party) setMore(t *testing.T, name, path string) {
	t.Helper()
	_, err := p.db.Exec("UPDATE padlock_locks SET version = version + 1, more = jsonb_set(more::jsonb, '{"+path+"}', '1')::text WHERE name = $1", []byte(name))
	noError(t, err)
}

func (h handOver) run(t *testing.T, a, b *party, name string) {
	last := a.take(t, name, driver.Request{})
	got := make(chan grant, len(h.waiters))
	for i, r := range h.waiters {
		r.Name = name
		b.waits(t, r, got)
		a.queue(t, name, i+1)
	}
	if h.before != nil {
		h.before(t, a, name)
	}
	a.giveBack(t, name, h.keep)
	above := last.Fence + uint64(h.keep.Microseconds()) // a fence is not below the server's clock
	for _, r := range h.waiters {
		above = max(above, r.FenceAbove)
	}
	have := map[string]grant{}
	for range h.tokens {
		g := <-got
		noError(t, g.err)
		safety.Rises(t, g.g.Fence, above, g.waiter)
		have[g.waiter] = g
	}
	st, err := a.store.Inspect(t.Context(), name)
	noError(t, err)
	if len(st.Holds) != len(h.tokens) || st.Waiters != len(h.waiters)-len(h.tokens) && h.before == nil {
		t.Fatalf("afterwards: %+v, and %d more grants", st, len(got))
	}
	for _, token := range h.tokens {
		g, ok := have[token]
		if !ok {
			t.Fatalf("%v got the name, want %v", have, h.tokens)
		}
		if _, err := b.store.Extend(t.Context(), name, g.token, time.Minute); err != nil {
			t.Errorf("%s: %v", token, err)
		}
	}
}

// handOverUnderATransaction: a transaction that has checked the lock keeps the name after the
// release, and only so long.
func handOverUnderATransaction(t *testing.T, d database) {
	a, _ := d.pushed(t)
	b, _ := d.pushed(t)
	const name = "checked"
	g := a.take(t, name, driver.Request{})
	got := make(chan grant, 1)
	b.lineUp(t, name, "b", 1, got)
	tx := a.begin(t, 0)
	noError(t, a.store.CheckTx(t.Context(), tx, granted{name, g.Fence}))
	a.giveBack(t, name, 0)
	st, err := a.store.Inspect(t.Context(), name)
	noError(t, err)
	if slices.ContainsFunc(st.Holds, func(h driver.Hold) bool { return !strings.Contains(h.Label, "a transaction") }) {
		t.Errorf("the name was handed over before the end of the transaction: %+v", st)
	}
	noError(t, tx.Commit())
	next := <-got
	noError(t, next.err)
	safety.Rises(t, next.g.Fence, g.Fence)
}

type granted struct {
	name  string
	fence uint64
}

func (g granted) Name() string  { return g.name }
func (g granted) Fence() uint64 { return g.fence }

// passWhileOthersWait: a Pass to another caller of the process goes to the first waiter of the
// queue instead.
func passWhileOthersWait(t *testing.T, d database) {
	a, _ := d.pushed(t)
	b, _ := d.pushed(t)
	const name = "passed"
	a.take(t, name, driver.Request{})
	next := driver.Request{Name: name, Token: driver.TokenOf("of this process"), TTL: time.Minute}
	out, g, err := a.store.Pass(t.Context(), "token of "+name, next)
	if out != driver.OutcomeReleased || g.TTL == 0 || err != nil {
		t.Fatalf("nobody waits: %v, %+v, %v", out, g, err)
	}
	got := make(chan grant, 2)
	a.lineUp(t, name, "a", 1, got) // so that notifications arrive at a
	b.lineUp(t, name, "b", 2, got)
	out, g, err = a.store.Pass(t.Context(), next.Token.Text(), driver.Request{Name: name, Token: driver.TokenOf("a third"), TTL: time.Minute})
	if out != driver.OutcomeReleased || g.TTL != 0 || err != nil {
		t.Errorf("somebody waits: %v, %+v, %v", out, g, err)
	}
	first := <-got
	noError(t, first.err)
	_, err = a.store.Release(t.Context(), name, first.token, 0)
	noError(t, err)
	noError(t, (<-got).err)
}

// lostNotification: a notification that is lost delays its waiter, and those behind it, until they
// look by themselves. Nobody is forgotten.
func lostNotification(t *testing.T, d database) {
	a, _ := d.pushed(t)
	b, deaf := d.pushed(t)
	c, _ := d.pushed(t)
	const name = "lost notification"
	a.take(t, name, driver.Request{})
	got := make(chan grant, 2)
	b.lineUp(t, name, "b", 1, got)
	c.lineUp(t, name, "c", 2, got)
	deaf.deaf.Store(true)
	a.giveBack(t, name, 0)
	first := <-got
	noError(t, first.err)
	eventually(t, "a notification is lost", func() bool { return deaf.ignored.Load() > 0 })
	of := map[string]*party{"b": b, "c": c}[first.waiter]
	_, err := of.store.Release(t.Context(), name, first.token, 0)
	noError(t, err)
	noError(t, (<-got).err)
}

// listeningConnectionEnds: the server ends the connection that listens, while somebody waits.
// Another one takes its place, and the next notification arrives there.
func listeningConnectionEnds(t *testing.T, d database) {
	a, _ := d.pushed(t)
	b, l := d.pushed(t)
	const name = "successor"
	a.take(t, name, driver.Request{})
	got := make(chan grant, 1)
	b.lineUp(t, name, "b", 1, got)
	var ended int
	noError(t, a.db.QueryRow("SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE query LIKE 'LISTEN%' AND query LIKE $1", "%"+l.channel.Load().(string)+"%").Scan(&ended))
	if ended == 0 {
		t.Fatal("no connection listened")
	}
	for l.ready.Load() < 2 {
		<-time.After(5 * time.Millisecond)
	}
	a.queue(t, name, 1)
	a.giveBack(t, name, 0)
	g := <-got
	noError(t, g.err)
	eventually(t, "a notification arrives on the second connection", func() bool { return l.heard.Load() > 0 })
}
