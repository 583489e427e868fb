package sampler_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/driver/fast"
	"github.com/padlock-go/padlock/observe/sampler"
	"github.com/padlock-go/padlock/stores/memstore"
)

// describedRow is a set of states of "job" and what the command and the page say about it.
type describedRow struct {
	states  []padlock.State
	slots   int
	state   sampler.State
	blocked bool // for a caller with this number of slots
	held    int  // slots
	waiters int
	level   string
}

func describedRows() map[string]describedRow {
	slot, gate := func(n int) string { return fast.SlotName("job", n) }, fast.SlotGate("job", 2)
	one := []padlock.Hold{{Holder: driver.Holder{Host: "web-3", PID: 1}}}
	two := []padlock.Hold{one[0], {Holder: driver.Holder{Host: "web-4", PID: 2}}}
	cooling := []padlock.Hold{{Cooling: true}}
	late := []padlock.Hold{{Since: time.Now().Add(-time.Hour), PlannedEnd: time.Now().Add(-time.Minute)}}
	const held, cools, free = sampler.Held, sampler.Cooling, sampler.Free
	return map[string]describedRow{
		"no state":                   {nil, 0, free, false, 0, 0, "free"},
		"free":                       {[]padlock.State{{Name: "job", Fence: 7}}, 0, free, false, 0, 0, "free"},
		"held":                       {[]padlock.State{{Name: "job", Holds: one}}, 0, held, true, 0, 0, "held"},
		"waiters are not known":      {[]padlock.State{{Name: "job", Holds: one, Waiters: -1}}, 0, held, true, 0, -1, "held"},
		"hot":                        {[]padlock.State{{Name: "job", Holds: one, Waiters: 2}}, 0, held, true, 0, 2, "hot"},
		"shared by two":              {[]padlock.State{{Name: "job", Holds: two}}, 0, held, true, 0, 0, "held"},
		"cools down":                 {[]padlock.State{{Name: "job", Holds: cooling}}, 0, cools, true, 0, 0, "cooling"},
		"past its planned end":       {[]padlock.State{{Name: "job", Holds: late}}, 0, held, true, 0, 0, "stuck"},
		"a slot, asked without":      {[]padlock.State{{Name: slot(0), Holds: one}}, 0, held, false, 1, 0, "held"},
		"one of two slots":           {[]padlock.State{{Name: slot(0), Holds: one}, {Name: slot(1)}}, 2, held, false, 1, 0, "held"},
		"two of two slots":           {[]padlock.State{{Name: slot(0), Holds: one}, {Name: slot(1), Holds: one}}, 2, held, true, 2, 0, "held"},
		"slots 0 and 5, asked for 2": {[]padlock.State{{Name: slot(0), Holds: one}, {Name: slot(5), Holds: one}}, 2, held, false, 2, 0, "held"},
		"a slot cools down":          {[]padlock.State{{Name: slot(0), Holds: cooling}}, 1, cools, true, 1, 0, "cooling"},
		"a caller waits for a slot":  {[]padlock.State{{Name: slot(0), Holds: one}, {Name: gate, Holds: one, Waiters: 2}}, 1, held, true, 1, 3, "hot"},
		"one waits with a weight":    {[]padlock.State{{Name: slot(0), Holds: one}, {Name: gate, Holds: one}, {Name: fast.SlotGate("job", 0), Holds: one, Waiters: 1}}, 1, held, true, 1, 1, "held"},
		"slots, waiters not known":   {[]padlock.State{{Name: slot(0), Holds: one, Waiters: -1}, {Name: slot(1), Waiters: -1}}, 2, held, false, 1, -1, "held"},
		"gate, waiters not known":    {[]padlock.State{{Name: slot(0), Holds: one}, {Name: gate, Holds: one, Waiters: -1}}, 1, held, true, 1, -1, "held"},
		"lock and slot":              {[]padlock.State{{Name: "job", Holds: one}, {Name: slot(0)}}, 1, held, false, 0, 0, "held"},
		"other names":                {[]padlock.State{{Name: "job2", Holds: one}, {Name: fast.SlotName("job2", 0), Holds: one}}, 0, free, false, 0, 0, "free"},
	}
}

// One function says what each state is; the command and the page only show its answer.
func TestDescribe(t *testing.T) {
	for what, want := range describedRows() {
		n := sampler.Describe("job", want.states, time.Now())
		if n.State != want.state || (len(n.Blocking(want.slots)) > 0) != want.blocked || n.HeldSlots() != want.held || n.Waiters != want.waiters || n.Level() != want.level {
			t.Errorf("%s: %s, %s, blocked by %v, %d slots, %d waiters; want %+v", what, n.State, n.Level(), n.Blocking(want.slots), n.HeldSlots(), n.Waiters, want)
		}
	}
}

// A Sampler's first look says the same about a store as Describe and Look do.
func TestDescribeIsTheSamplersRow(t *testing.T) {
	l := padlock.New(memstore.New())
	defer l.Close(t.Context())
	for _, opts := range [][]padlock.Option{{padlock.Shared()}, {padlock.Shared()}, {padlock.Slots(2)}, {padlock.Slots(2)}} {
		if _, err := l.Acquire(t.Context(), "job", append(opts, padlock.Label("who"))...); err != nil {
			t.Fatal(err)
		}
	}
	snap, err := sampler.New(l).Sample(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	states, err := l.List(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	all := sampler.DescribeAll(states, time.Now())
	looked, err := sampler.LookAll(t.Context(), l, "job", time.Minute)
	if err != nil || len(all) != 1 || len(snap.Names) != 1 {
		t.Fatalf("%d and %d rows, %v", len(all), len(snap.Names), err)
	}
	for what, n := range map[string]sampler.Name{"DescribeAll": all[0], "LookAll": looked} {
		if got, want := textOf(t, n), textOf(t, snap.Names[0]); got != want {
			t.Errorf("%s says\n%s, the sampler\n%s", what, got, want)
		}
	}
	if n, err := sampler.Look(t.Context(), l, "job", 2); err != nil || len(n.Blocking(2)) != 2 || n.Slots != 2 {
		t.Errorf("two slots: %+v, %v", n, err)
	}
	if n, err := sampler.Look(t.Context(), l, "job", 0); err != nil || len(n.Holds) != 2 {
		t.Errorf("the lock: %+v, %v", n, err)
	}
}

// textOf returns the JSON of a row without its times.
func textOf(t *testing.T, n sampler.Name) string {
	t.Helper()
	n.Holds = slices.Clone(n.Holds)
	n.Seen = time.Time{}
	for i := range n.Holds {
		n.Holds[i].FirstSeen, n.Holds[i].Held, n.Holds[i].Since, n.Holds[i].Until = time.Time{}, 0, time.Time{}, time.Time{}
	}
	text, err := json.Marshal(n)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// A held lock whose name looks like that of a slot is not free.
func TestNamesThatLookLikeSlots(t *testing.T) {
	for _, name := range []string{"job#3", "job:3", fast.SlotName("job", 3), fast.SlotGate("job", 3), fast.SlotName(fast.SlotName("job", 1), 2), "\x1fslot:3"} {
		l := padlock.New(memstore.New())
		if _, err := l.Acquire(t.Context(), name); err != nil {
			t.Fatal(err)
		}
		one, err := sampler.Look(t.Context(), l, name, 0)
		if err != nil || one.Name != name || one.State != sampler.Held || len(one.Blocking(0)) != 1 {
			t.Errorf("%q is %s, blocked by %v, %v", name, one.State, one.Blocking(0), err)
		}
		all, err := sampler.LookAll(t.Context(), l, name, time.Minute)
		if err != nil || all.State != sampler.Held || len(all.Blocking(0)) != 1 {
			t.Errorf("%q with its slots is %s, blocked by %v, %v", name, all.State, all.Blocking(0), err)
		}
		l.Close(t.Context())
	}
}

// Locks whose names the store does not know have a row each.
func TestLocksWithoutNames(t *testing.T) {
	held := []padlock.Hold{{Foreign: true}}
	all := sampler.DescribeAll([]padlock.State{{Path: "/b", Holds: held}, {Path: "/a", Holds: held}, {Name: "z", Holds: held}}, time.Now())
	var got []string
	for i := range all {
		got = append(got, all[i].Name+all[i].Path+" "+string(all[i].State)+" "+all[i].Group)
	}
	if want := []string{"/a held ", "/b held ", "z held z"}; !slices.Equal(got, want) {
		t.Errorf("the rows are %q, want %q", got, want)
	}
}

// silent is a store that does not reply.
type silent struct{ padlock.Store }

func (silent) Inspect(context.Context, string) (driver.State, error) {
	return driver.State{}, driver.ErrUnavailable
}
func (silent) List(context.Context, string) ([]driver.State, error) {
	return nil, driver.ErrUnavailable
}
func (silent) Break(context.Context, string, uint64) (uint64, error) {
	return 0, driver.ErrUnavailable
}

// A store that does not reply makes a name unknown: not free, and not held.
func TestLookThatFails(t *testing.T) {
	l := padlock.New(silent{memstore.New()})
	defer l.Close(t.Context())
	for _, slots := range []int{0, 2} {
		n, err := sampler.Look(t.Context(), l, "job", slots)
		if !errors.Is(err, padlock.ErrUnavailable) || n.State != sampler.Unknown || n.Waiters != -1 || n.Level() != "unknown" {
			t.Errorf("%d slots: %+v, %v", slots, n, err)
		}
		if text := textOf(t, n); strings.Contains(text, "held") || !strings.Contains(text, `"state":"unknown"`) {
			t.Errorf("%d slots: %s", slots, text)
		}
	}
}

// docs/json.md says which figures that are 0 are left out, and which are not.
func TestFiguresOfZeroInTheJSON(t *testing.T) {
	s := sampler.Snapshot{Names: []sampler.Name{{Name: "a", Holds: []sampler.Hold{{}}}}, Groups: []sampler.Group{{}}, Ended: []sampler.Ended{{}}}
	text, err := json.Marshal(&s)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`{"number":0,"store":"","summary":{"names":1,"held":0,"holders":1,"waiters":0,"stuck":0,"hot":0,"unknown":0},"names":[{"name":"a",`,
		`"holders":[{"shared":false,"slot":0}],"waiters":0}]`,
		`"groups":[{"group":"","names":0,"holds":0,"waiters":0,"stuck":0,"wait_seconds_total":0,"hold_seconds":{"count":0,"p50":0,"p95":0,"p99":0,"max":0}}]`,
		`"held_seconds":0,`,
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the JSON lacks %s: %s", want, text)
		}
	}
}

// A client can write any time into a store. RFC 3339 has no year above 9999 and none below 0.
func TestTimesThatJSONCannotHave(t *testing.T) {
	late, early := time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(-1, 1, 1, 0, 0, 0, 0, time.UTC)
	hold := padlock.Hold{Since: early, Until: late, PlannedEnd: time.Date(9999, 12, 31, 23, 0, 0, 0, time.FixedZone("", -3*3600))}
	n := sampler.Describe("a", []padlock.State{{Name: "a", Holds: []padlock.Hold{hold}}}, time.Now())
	text, err := json.Marshal(n)
	if want := `"until":"9999-12-31T23:59:59Z","planned_end":"9999-12-31T23:59:59Z"`; err != nil || !strings.Contains(string(text), want) || strings.Contains(string(text), `"since"`) {
		t.Errorf("%s, %v; want %s and no since", text, err, want)
	}
	if text, err := json.Marshal(sampler.Ended{Since: early, End: late}); err != nil || !strings.Contains(string(text), `"end":"9999-`) {
		t.Errorf("an ended hold: %s, %v", text, err)
	}
}
