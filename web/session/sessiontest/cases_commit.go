package sessiontest

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/padlock-go/padlock/web/session/sessionstore"
)

var cases = []testCase{
	{"create", createMakes}, {"create/taken", createTaken}, {"create/one-winner", createOneWinner},
	{"missing", missing}, {"ops/in-order", opsInOrder}, {"ops/values", opsValues}, {"ops/results", opsResults},
	{"version/right", versionRight}, {"version/wrong", versionWrong}, {"version/changes", versionChanges},
	{"unchanged", unchanged}, {"unchanged/violated", unchangedViolated}, {"unchanged/all-or-nothing", allOrNothing},
	{"incr", incrAdds}, {"incr/refused", incrRefused}, {"incr/crowd", incrCrowd},
	{"take/once", takeOnce}, {"crowd/keys", crowdKeys}, {"crowd/conditions", crowdConditions}, {"bytes/copied", bytesCopied},
	{"size", sizeBounded}, {"size/new", sizeOfNew}, {"size/crowd", sizeCrowd},
	{"ttl/ends", ttlEnds}, {"ttl/renewed", ttlRenewed}, {"ttl/for-ever", ttlForEver}, {"ttl/longest", ttlLongest}, {"deadline", deadline},
	{"touch", touchProlongs}, {"touch/shortens", touchShortens}, {"touch/nothing", touchNothing},
	{"delete", deletes}, {"delete/race", deleteRace},
	{"moved", movedIsTombstone}, {"moved/conditions", movedConditions}, {"moved/ends", movedEnds},
	{"moved/deleted", movedDeleted}, {"moved/race", movedRace}, {"moved/two", movedTwo}, {"context", contextEnded},
	{"index", ofIndex(indexFinds)}, {"index/ends", ofIndex(indexEnds)}, {"index/forgets", ofIndex(indexForgets)}, {"index/crowd", ofIndex(indexCrowd)},
}

func createMakes(c *check) {
	res := c.create(c.put("a", "1"), c.put("b", "2"))
	r := c.load()
	c.fields(r, map[string]any{"a": "1", "b": "2"})
	if r.Version == "" || r.Version != res.Version {
		c.errorf("Commit returned version %q, Load %q", res.Version, r.Version)
	}
	if r.TTL <= 0 || r.TTL > long || r.TTL < long-time.Minute {
		c.errorf("it lives for %v, want %v", r.TTL, long)
	}
	if r.Moved.To.Text() != "" {
		c.errorf("it moved to %q", r.Moved.To.Text())
	}
}

func createTaken(c *check) {
	c.create(c.put("a", "1"))
	c.refused("Create over a session", sessionstore.Change{Create: true, Ops: []sessionstore.Op{c.put("a", "2")}}, sessionstore.ErrExists)
	c.refused("Create over a session, with an op that fails", sessionstore.Change{Create: true, Ops: []sessionstore.Op{c.put("a", "text"), incr("a", 1)}}, sessionstore.ErrExists)
	c.has(map[string]any{"a": "1"})
}

func createOneWinner(c *check) {
	var won atomic.Int32
	c.crowd(8, func(i int) {
		_, err := c.commit(sessionstore.Change{Create: true, Ops: []sessionstore.Op{c.put("a", fmt.Sprint(i))}})
		if err == nil {
			won.Add(1)
		} else if !errors.Is(err, sessionstore.ErrExists) {
			c.errorf("Create: %v", err)
		}
	})
	if n := won.Load(); n != 1 {
		c.errorf("%d of 8 made the same session", n)
	}
}

func missing(c *check) {
	if _, err := c.a.Load(c.ctx, c.key); !errors.Is(err, sessionstore.ErrNotFound) {
		c.errorf("Load: %v, want ErrNotFound", err)
	}
	for _, ch := range []sessionstore.Change{{Ops: []sessionstore.Op{c.put("a", "1")}}, {Version: "1"}, {Unchanged: []sessionstore.Condition{absent("a")}}, {Ops: []sessionstore.Op{incr("n", 1)}}} {
		c.refused("Commit to no session", ch, sessionstore.ErrNotFound)
	}
	if _, err := c.a.Load(c.ctx, c.key); !errors.Is(err, sessionstore.ErrNotFound) {
		c.errorf("a refused Commit made a session: %v", err)
	}
}

func opsInOrder(c *check) {
	c.create(c.put("a", "1"), c.put("b", "1"))
	c.change(sessionstore.Change{Ops: []sessionstore.Op{c.put("a", "2"), c.put("a", "3"), del("b"), c.put("b", "4"), c.put("c", "5"), del("c"), del("nothing")}})
	c.has(map[string]any{"a": "3", "b": "4"})
}

func opsValues(c *check) {
	want := make(map[string]any)
	var ops []sessionstore.Op
	for i, k := range c.Keys {
		want[k] = fmt.Sprintf("\x00\xff'\"\\|;:{}%d", i) + strings.Repeat("é", i)
		want[k] = strings.ToValidUTF8(want[k].(string), "?")
		ops = append(ops, c.put(k, want[k]))
	}
	big := c.Keys[0]
	want[big] = strings.Repeat("x", 600_000)
	ops[0] = c.put(big, want[big])
	c.create(ops...)
	c.has(want)
	if _, err := c.commit(sessionstore.Change{Ops: []sessionstore.Op{c.put(big, "")}, Unchanged: []sessionstore.Condition{c.was(big, want[big])}}); err != nil {
		c.errorf("a big value is not what it is: %v", err)
	}
	want[big] = ""
	for i := range 1000 {
		k := fmt.Sprintf("many%d", i)
		want[k] = "x"
		ops = append(ops, c.put(k, "x"))
	}
	if _, err := c.commit(sessionstore.Change{Ops: ops[len(c.Keys):]}); err != nil {
		c.errorf("1000 keys: %v", err)
	}
	c.has(want)
}

func opsResults(c *check) {
	c.create(c.put("a", "1"), c.put("n", int64(5)))
	res, err := c.commit(sessionstore.Change{Ops: []sessionstore.Op{incr("n", 2), c.put("b", "2"), take("a"), take("a"), take("none"), incr("m", -1), incr("n", 1), take("b")}})
	want := [][]byte{c.Encode(int64(7)), nil, c.Encode("1"), nil, nil, c.Encode(int64(-1)), c.Encode(int64(8)), c.Encode("2")}
	if err != nil || len(res.Values) != len(want) {
		c.failf("%d values, %v, want %d", len(res.Values), err, len(want))
	}
	for i := range want {
		if (want[i] == nil) != (res.Values[i] == nil) || string(want[i]) != string(res.Values[i]) {
			c.errorf("value %d is %q, want %q", i, res.Values[i], want[i])
		}
	}
	c.has(map[string]any{"n": int64(8), "m": int64(-1)})
}

func versionRight(c *check) {
	res := c.create(c.put("a", "1"))
	for i := range 3 {
		next, err := c.commit(sessionstore.Change{Version: res.Version, Ops: []sessionstore.Op{c.put("a", fmt.Sprint("v", i))}})
		if err != nil {
			c.failf("Commit with the version that the last one returned: %v", err)
		}
		if v := c.load().Version; v != next.Version {
			c.errorf("Commit returned version %q, Load %q", next.Version, v)
		}
		res = next
	}
}

func versionWrong(c *check) {
	res := c.create(c.put("a", "1"))
	c.change(sessionstore.Change{Ops: []sessionstore.Op{c.put("b", "1")}})
	c.refused("Commit with an old version", sessionstore.Change{Version: res.Version, Ops: []sessionstore.Op{c.put("a", "2")}}, sessionstore.ErrConflict)
	c.has(map[string]any{"a": "1", "b": "1"})
}

func versionChanges(c *check) {
	last := c.create(c.put("a", "1"), c.put("n", int64(1))).Version
	for _, op := range []sessionstore.Op{c.put("a", "2"), c.put("b", "1"), del("b"), incr("n", 1), take("a")} {
		res, err := c.commit(sessionstore.Change{Ops: []sessionstore.Op{op}})
		if err != nil || res.Version == last {
			c.errorf("op %d left the version at %q, %v", op.Kind, last, err)
		}
		last = res.Version
	}
}

func unchanged(c *check) {
	c.create(c.put("a", "1"), c.put("b", "2"))
	ch := sessionstore.Change{Unchanged: []sessionstore.Condition{c.was("a", "1"), c.was("b", "2"), absent("c")}, Ops: []sessionstore.Op{c.put("a", "3")}}
	if _, err := c.commit(ch); err != nil {
		c.errorf("all is as it was, and Commit answers %v", err)
	}
	c.has(map[string]any{"a": "3", "b": "2"})
}

func unchangedViolated(c *check) {
	c.create(c.put("a", "1"), c.put("b", ""))
	for _, x := range []struct {
		what string
		cond sessionstore.Condition
	}{
		{"another value", c.was("a", "2")}, {"there, though absent is wanted", absent("a")}, {"absent, though a value is wanted", c.was("z", "1")},
		{"empty, though absent is wanted", absent("b")}, {"absent, though an empty value is wanted", c.was("z", "")}, {"a longer value", c.was("a", "11")},
	} {
		_, err := c.commit(sessionstore.Change{Unchanged: []sessionstore.Condition{x.cond}, Ops: []sessionstore.Op{c.put("a", "9")}})
		var conflict *sessionstore.ConflictError
		if !errors.As(err, &conflict) {
			c.errorf("%s: %v, want a *ConflictError", x.what, err)
		} else if !slices.Equal(conflict.Keys, []string{x.cond.Key}) {
			c.errorf("%s: it names the keys %q", x.what, conflict.Keys)
		}
	}
	c.has(map[string]any{"a": "1", "b": ""})
}

func allOrNothing(c *check) {
	before := c.create(c.put("a", "1"), c.put("b", "2"), c.put("text", "x"))
	for _, ch := range []sessionstore.Change{
		{Unchanged: []sessionstore.Condition{c.was("a", "1"), c.was("b", "0")}, Ops: []sessionstore.Op{c.put("a", "9"), c.put("c", "9")}},
		{Ops: []sessionstore.Op{c.put("a", "9"), del("b"), incr("text", 1)}},
		{Unchanged: []sessionstore.Condition{c.was("a", "0")}, Move: sessionstore.Moved{To: sessionstore.KeyOf("elsewhere")}},
	} {
		if _, err := c.commit(ch); err == nil {
			c.errorf("it was not refused")
		}
		c.has(map[string]any{"a": "1", "b": "2", "text": "x"})
	}
	if r := c.load(); r.Version != before.Version || r.Moved.To.Text() != "" {
		c.errorf("a refused Commit changed the version from %q to %q", before.Version, r.Version)
	}
}

func incrAdds(c *check) {
	c.create()
	for _, x := range []struct{ delta, want int64 }{{5, 5}, {-7, -2}, {0, -2}, {math.MaxInt64, math.MaxInt64 - 2}, {2, math.MaxInt64}, {-math.MaxInt64, 0}, {math.MinInt64, math.MinInt64}} {
		res, err := c.commit(sessionstore.Change{Ops: []sessionstore.Op{incr("n", x.delta)}})
		if err != nil || string(c.value(res)) != string(c.Encode(x.want)) {
			c.failf("adding %d: %q, %v, want %d", x.delta, res.Values, err, x.want)
		}
	}
	c.has(map[string]any{"n": int64(math.MinInt64)})
}

func incrRefused(c *check) {
	c.create(c.put("text", "x"), c.put("max", int64(math.MaxInt64)), c.put("min", int64(math.MinInt64)), c.put("digits", "12"))
	for _, op := range []sessionstore.Op{incr("text", 1), incr("max", 1), incr("min", -1), incr("digits", 1)} {
		if _, err := c.commit(sessionstore.Change{Ops: []sessionstore.Op{op}}); !errors.Is(err, sessionstore.ErrNotNumber) {
			c.errorf("adding to %q: %v, want ErrNotNumber", op.Key, err)
		}
	}
	c.has(map[string]any{"text": "x", "max": int64(math.MaxInt64), "min": int64(math.MinInt64), "digits": "12"})
}

func incrCrowd(c *check) {
	c.create()
	c.crowd(8, func(int) {
		for range 10 {
			c.change(sessionstore.Change{Ops: []sessionstore.Op{incr("n", 1)}})
		}
	})
	c.has(map[string]any{"n": int64(80)})
}

func takeOnce(c *check) {
	c.create(c.put("a", "1"))
	var got atomic.Int32
	c.crowd(8, func(int) {
		res, err := c.commit(sessionstore.Change{Ops: []sessionstore.Op{take("a")}})
		if err != nil {
			c.errorf("%v", err)
		} else if c.value(res) != nil {
			got.Add(1)
		}
	})
	if n := got.Load(); n != 1 {
		c.errorf("%d of 8 took it", n)
	}
}

func crowdKeys(c *check) {
	c.create()
	want := make(map[string]any)
	for i := range 20 {
		want[fmt.Sprint("k", i)] = "x"
	}
	c.crowd(20, func(i int) {
		c.change(sessionstore.Change{Ops: []sessionstore.Op{c.put(fmt.Sprint("k", i), "x")}, Unchanged: []sessionstore.Condition{absent(fmt.Sprint("k", i))}})
	})
	c.has(want)
}

// crowdConditions lets 8 callers read and write at once. Of the callers that read the same value,
// only one may succeed.
func crowdConditions(c *check) {
	c.create(c.put("n", int64(0)))
	var done atomic.Int64
	c.crowd(8, func(int) {
		for range 10 {
			var n int64
			for _, f := range c.load().Fields {
				for n = 0; n < 1000 && string(f.Value) != string(c.Encode(n)); n++ {
				}
			}
			_, err := c.commit(sessionstore.Change{Unchanged: []sessionstore.Condition{c.was("n", n)}, Ops: []sessionstore.Op{c.put("n", n+1)}})
			if err == nil {
				done.Add(1)
			} else if !errors.Is(err, sessionstore.ErrConflict) {
				c.errorf("%v", err)
			}
		}
	})
	c.has(map[string]any{"n": done.Load()})
}

func bytesCopied(c *check) {
	op := c.put("a", "1")
	c.create(op)
	want := string(op.Value)
	r := c.load()
	for i := range op.Value {
		op.Value[i] = '!'
	}
	c.change(sessionstore.Change{Ops: []sessionstore.Op{c.put("a", "2")}})
	if len(r.Fields) != 1 || string(r.Fields[0].Value) != want {
		c.errorf("what was loaded became %q", r.Fields)
	}
}
