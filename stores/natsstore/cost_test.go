package natsstore_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/server"
)

// A counter counts the requests of each kind, as another client of the account sees them.
type counter struct {
	t    *testing.T
	nc   *nats.Conn
	subs map[string]*nats.Subscription
}

func count(t *testing.T, srv *server.Server) *counter {
	nc, _ := connect(t, srv.URL())
	c := &counter{t, nc, map[string]*nats.Subscription{}}
	for kind, subject := range map[string]string{"reads": "$JS.API.STREAM.MSG.GET.>", "writes": "$KV.>", "watches": "$JS.API.CONSUMER.CREATE.>", "ends": "$JS.API.CONSUMER.DELETE.>"} {
		sub, err := nc.SubscribeSync(subject)
		if err != nil {
			t.Fatal(err)
		}
		c.subs[kind] = sub
	}
	c.take()
	return c
}

// take returns the counts of the requests since the last call.
func (c *counter) take() (reads, writes, watches int) {
	c.t.Helper()
	if err := c.nc.Flush(); err != nil {
		c.t.Fatal(err)
	}
	n := map[string]int{}
	for kind, sub := range c.subs {
		for {
			if _, err := sub.NextMsg(time.Millisecond); err != nil {
				break
			}
			n[kind]++
		}
	}
	return n["reads"], n["writes"], n["watches"]
}

// A row is what the counter has counted, as the page says it.
func (c *counter) row(what string) string {
	c.t.Helper()
	reads, writes, watches := c.take()
	return fmt.Sprintf("| %s | %d | %d | %d |", what, reads, writes, watches)
}

// await waits until a waiter has sent so many reads and watches. It returns an error if there are
// more.
func (c *counter) await(reads, watches int) error {
	c.t.Helper()
	server.Eventually(c.t, func() error {
		r, _, w := c.take()
		if reads, watches = reads-r, watches-w; reads > 0 || watches > 0 {
			return fmt.Errorf("the waiter has not sent %d reads and %d watches", reads, watches)
		}
		return nil
	})
	if reads < 0 || watches < 0 {
		return fmt.Errorf("the waiter has sent %d reads and %d watches too many", -reads, -watches)
	}
	return nil
}

// The table of the page says what a client of the account sees.
func TestCost(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/stores/nats.md")
	if err != nil {
		t.Fatal(err)
	}
	srv, rawURL := start(t, server.NATSOptions{})
	store, other := open(t, rawURL), open(t, rawURL)
	c := count(t, srv)
	for try := 1; ; try++ {
		begun := time.Now()
		err := costs(t, c, string(page), fmt.Sprint("job-", try), store, other)
		if err == nil {
			break
		}
		// A server that is silent for 2 s gets another request.
		if slow := time.Since(begun) > 2*time.Second; !slow || try == 5 {
			t.Fatal(err)
		}
	}
	if _, err := c.subs["ends"].NextMsg(time.Minute); err != nil {
		t.Errorf("the consumer of a watch that has ended is not deleted: %v", err)
	}
}

// costs compares the rows of the page with the numbers of the counter for a name.
func costs(t *testing.T, c *counter, page, name string, store, other driver.Store) (wrong error) {
	t.Helper()
	c.take()
	check := func(row string) {
		if !strings.Contains(page, row) {
			wrong = errors.Join(wrong, fmt.Errorf("the page does not say %q", row))
		}
	}
	release := func(r driver.Request) {
		wrong = errors.Join(wrong, answered(t, func() error { _, err := store.Release(t.Context(), r.Name, r.Token, 0); return err }))
	}
	renew := func(r driver.Request) {
		wrong = errors.Join(wrong, answered(t, func() error { _, err := store.Extend(t.Context(), r.Name, r.Token, r.TTL); return err }))
	}
	r := request(name)
	take(t, store, r)
	release(r)
	check(c.row("a free lock, acquired and released"))
	r = request(name)
	take(t, store, r)
	c.take()
	if err := answered(t, func() error { _, err := other.Acquire(t.Context(), request(name)); return err }); !errors.Is(err, driver.ErrHeld) {
		t.Fatal(err)
	}
	check(c.row("a try at a lock that is held"))
	renew(r)
	check(c.row("a renewal, every ten seconds"))
	woken := wait(t, other, name)
	wrong = errors.Join(wrong, c.await(1, 1))
	renew(r)
	wrong = errors.Join(wrong, c.await(2, 1)) // one of the reads is that of the renewal
	check("| a waiter, for each renewal of the holder | 1 | 0 | 1 |")
	release(r)
	return errors.Join(wrong, <-woken)
}
