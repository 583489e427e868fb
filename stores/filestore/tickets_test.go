//go:build linux

package filestore

import (
	"errors"
	"math"
	"os"
	"sync"
	"testing"
)

// emptyQueue maps the queue of a new file.
func emptyQueue(t *testing.T) (*ticketQueue, *conn) {
	t.Helper()
	c, err := openConn(t.TempDir()+"/lock", private)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.close)
	q, err := openQueue(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(q.drop)
	return q, c
}

func join(t *testing.T, q *ticketQueue, c *conn, state ticketState, pipe uint64) ticket {
	t.Helper()
	got, err := q.join(c, state, pipe)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// firstIs checks which ticket is the first of all.
func firstIs(t *testing.T, q *ticketQueue, want ticket) {
	t.Helper()
	number, word, ok := q.firstTicket(math.MaxUint64)
	if !ok || number != want.number || word != want.word {
		t.Fatalf("the first is %d (%x), %v; want %d (%x)", number, word, ok, want.number, want.word)
	}
}

func TestTicketsAreInOrder(t *testing.T) {
	t.Parallel()
	q, c := emptyQueue(t)
	for round := range uint64(3 * ticketRoom / 4) { // the tickets use every word of the queue more than once
		a := join(t, q, c, ticketWaits, 1+round)
		b := join(t, q, c, ticketWaitsShared, 1+round)
		d := join(t, q, c, ticketWaits, 2+round)
		firstIs(t, q, a)
		if n := q.count(d.number); n != 2 || !b.word.shared() || a.word.shared() {
			t.Fatalf("%d before the third; shared %v, %v", n, a.word.shared(), b.word.shared())
		}
		q.remove(b.number, b.word) // from the middle
		q.remove(a.number, a.word)
		firstIs(t, q, d)
		if a.valid() || b.valid() || !d.valid() {
			t.Fatal("valid:", a.valid(), b.valid(), d.valid())
		}
		q.removeAll(2 + round)
		if _, _, ok := q.firstTicket(math.MaxUint64); ok || q.count(math.MaxUint64) != 0 {
			t.Fatal("somebody is left")
		}
	}
}

// A process is killed after it has put its word and before it raises next. Another process raises
// next.
func TestHalfATicket(t *testing.T) {
	t.Parallel()
	q, c := emptyQueue(t)
	join(t, q, c, ticketWaits, 1)
	q.word(1).Store(uint64(newTicketWord(ticketWaits, 1, 7)))
	if got := join(t, q, c, ticketWaits, 2); got.number != 2 || q.count(got.number) != 2 {
		t.Errorf("the next ticket is %d, behind %d", got.number, q.count(got.number))
	}
}

func TestQueueHasAnEnd(t *testing.T) {
	t.Parallel()
	q, c := emptyQueue(t)
	var all []ticket
	for range ticketRoom {
		all = append(all, join(t, q, c, ticketWaits, 1))
	}
	if _, err := q.join(c, ticketWaits, 1); !errors.Is(err, errQueueFull) {
		t.Fatalf("one more: %v", err)
	}
	q.remove(all[0].number, all[0].word)
	join(t, q, c, ticketWaits, 1)
	firstIs(t, q, all[1])
}

// If the file contains garbage, no call hangs, and the queue works again afterwards.
func TestQueueOverGarbage(t *testing.T) {
	t.Parallel()
	q, c := emptyQueue(t)
	join(t, q, c, ticketWaits, 1)
	for _, h := range []queueHeader{{next: 5, head: 9}, {next: 1 << 40, head: 3}, {next: math.MaxUint64 - 1}, {head: math.MaxUint64}} {
		q.nextTicket().Store(h.next)
		q.headTicket().Store(h.head)
		_ = q.guard(func() { q.count(math.MaxUint64) })
		_ = q.guard(func() { q.firstTicket(math.MaxUint64) })
		c.readTickets(func(uint64, ticketWord) bool { return true })
		got := join(t, q, c, ticketWaits, 3)
		if !got.valid() {
			t.Errorf("%+v: the ticket is not valid", h)
		}
		q.removeAll(3)
	}
}

// If the file was cut short, calls return an error, and the program does not crash.
func TestQueueCutShort(t *testing.T) {
	t.Parallel()
	q, c := emptyQueue(t)
	got := join(t, q, c, ticketWaits, 1)
	if err := os.Truncate(c.path[:len(c.path)-1], 0); err != nil {
		t.Fatal(err)
	}
	if err := q.guard(func() { t.Error("reached") }); !errors.Is(err, errQueueGone) || got.valid() {
		t.Errorf("%v, valid %v", err, got.valid())
	}
}

func TestTicketsOfMany(t *testing.T) {
	t.Parallel()
	const processes, rounds = 8, 500
	q, c := emptyQueue(t)
	var all sync.WaitGroup
	var seen sync.Map
	for p := range uint64(processes) {
		all.Go(func() {
			last := uint64(0)
			for range rounds {
				got, err := q.join(c, ticketWaits, 1+p)
				if _, twice := seen.LoadOrStore(got.number, true); err != nil || twice || got.number < last {
					t.Errorf("ticket %d after %d, twice: %v, %v", got.number, last, twice, err)
				}
				last = got.number
				q.firstTicket(math.MaxUint64)
				if !got.valid() {
					t.Errorf("ticket %d is gone", got.number)
				}
				q.remove(got.number, got.word)
			}
		})
	}
	all.Wait()
	if head, next := q.bounds(); next != processes*rounds || q.count(next) != 0 || head > next {
		t.Errorf("head %d, next %d", head, next)
	}
}
