package sqlstore_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit/decide"
)

// On PostgreSQL, one statement releases a name and hands it over to the first waiter.
// TestHandOverDecidesAlike writes each random row twice. The second one also has an intent that
// ended long ago. The statement leaves such a row to package decide and to the functions for the
// queue. Both rows must be the same afterwards.
func TestHandOverDecidesAlike(t *testing.T) {
	t.Parallel()
	d := databases["postgres"](t)
	tw := &twin{t: t, party: d.party(t), engine: d.engine, rand: rand.New(rand.NewPCG(3, 4)), alone: map[string]int{}}
	for i := range 150 {
		tw.handOver(fmt.Sprint("name ", i))
	}
	if tw.alone["hand over"] < 20 {
		t.Errorf("the statement has decided %d cases", tw.alone["hand over"])
	}
}

// randomQueue makes a queue of waiters that PostgreSQL wakes, with a few exceptions.
func (tw *twin) randomQueue(now decide.Time) (queue []placeText) {
	for i := range 1 + tw.rand.IntN(3) {
		p := placeText{Token: encoded(fmt.Sprint("waiter ", i)), Push: true, Channel: fmt.Sprint("channel_", i), Until: now.Add(38 * time.Second)}
		switch tw.rand.IntN(12) {
		case 0:
			p.Shared = true
		case 1:
			p.Push, p.Channel = false, ""
		case 2:
			p.Channel = ""
		case 3:
			p.Until = now.Add(-unit)
		case 4:
			p.Until = now.Add(unit) // the clock was set back
		case 5:
			p.Above = uint64(now.Add(time.Hour))
		}
		queue = append(queue, p)
	}
	return queue
}

func (tw *twin) handOver(name string) {
	now := decide.Time(time.Now().UnixMicro())
	s := &decide.State{}
	s.Fence = uint64(tw.rand.IntN(2)) * uint64(now.Add(time.Duration(tw.rand.IntN(2))*time.Hour))
	before := now.Add(-time.Duration(tw.rand.IntN(3)) * unit)
	r := driver.Request{Token: "holder", TTL: tw.lease()}
	if tw.rand.IntN(4) == 0 {
		r.AtLeast = tw.lease()
	}
	h, err := s.Acquire(&r, instant(before))
	noError(tw.t, err)
	if tw.rand.IntN(6) == 0 {
		h.Reserved, h.Least = true, 0
	}
	if tw.rand.IntN(6) == 0 {
		s.Cool = now.Add(time.Duration(2*tw.rand.IntN(2)-1) * unit)
	}
	if tw.rand.IntN(6) == 0 {
		s.Spent = []decide.Spent{{Token: "spent", Until: now.Add(50 * time.Second)}}
	}
	queue := tw.randomQueue(now)
	start := time.Now()
	var rows [2]contendedRow
	var outcomes [2]driver.Outcome
	for i, intent := range []decide.Intent{{}, {Token: "gone", Until: 1}} {
		s.Intent = intent
		tw.name, tw.queue = fmt.Sprint(name, " ", i), queue
		tw.write(s)
		outcomes[i], err = tw.store.Release(tw.t.Context(), tw.name, "holder", 0)
		noError(tw.t, err)
		rows[i] = tw.readContended()
	}
	tw.elapsed = decide.Time(time.Since(start).Microseconds())
	if !rows[0].more.Probe || rows[1].more.Probe { // both were decided in the same way
		return
	}
	tw.alone["hand over"]++
	if why := tw.differ(rows[0], rows[1]); why != "" || outcomes[0] != outcomes[1] {
		tw.t.Fatalf("%s: %v, %v\n%s and the queue %+v became\n%+v\n%+v", why, outcomes[0], outcomes[1], text(s), queue, rows[0], rows[1])
	}
}

// A contendedRow is a row of the table with its queue.
type contendedRow struct {
	token, holder             string
	fence                     uint64
	reserved                  int
	since, until, least, busy decide.Time
	more                      moreText
}

func (tw *twin) readContended() (r contendedRow) {
	tw.t.Helper()
	var token []byte
	var more string
	noError(tw.t, tw.db.QueryRow("SELECT token, reserved, fence, since, until, least, holder, busy, more FROM padlock_locks WHERE name = $1", []byte(tw.name)).
		Scan(&token, &r.reserved, &r.fence, &r.since, &r.until, &r.least, &r.holder, &r.busy, &more))
	if r.token = string(token); more != "" {
		noError(tw.t, json.Unmarshal([]byte(more), &r.more))
	}
	return r
}

// differ says what differs between the row of the statement and that of package decide.
func (tw *twin) differ(one, two contendedRow) string {
	if one.token != two.token || one.reserved != two.reserved || one.holder != two.holder {
		return "another token"
	}
	if two.fence == uint64(two.since) {
		if !tw.near(two.since, decide.Time(one.fence)) {
			return "another fence from the clock"
		}
	} else if one.fence != two.fence {
		return "another fence"
	}
	if !tw.near(two.since, one.since) || !tw.near(two.until, one.until) || !tw.near(two.least, one.least) {
		return "other times"
	}
	if two.busy > two.since && one.busy < two.busy && !tw.near(two.busy, one.busy) {
		return "free too early"
	}
	if !tw.near(two.more.Cool, one.more.Cool) && max(one.more.Cool, two.more.Cool) > two.since {
		return "another cool-down"
	}
	return tw.otherQueue(one.more.Queue, two.more.Queue)
}

// otherQueue compares the queues. Only package decide removes places that have ended.
func (tw *twin) otherQueue(one, two []placeText) string {
	now := decide.Time(time.Now().UnixMicro())
	live := func(queue []placeText) (out []placeText) {
		for _, p := range queue {
			if p.Until > now.Add(-unit/2) {
				p.Until = 0
				out = append(out, p)
			}
		}
		return out
	}
	if !reflect.DeepEqual(live(one), live(two)) {
		return "another queue"
	}
	return ""
}
