package linear

import (
	"testing"
	"time"

	"github.com/padlock-go/padlock/lab/soak"
)

const second = int64(time.Second)

// a history of one name: two holds, with the differences filled in.
func history(change func(first, released, second *soak.Event)) []soak.Event {
	a := soak.Event{Op: soak.Acquired, Name: "n", Hold: 1, Call: 1, At: 2, Fence: 10, Until: second}
	r := soak.Event{Op: soak.Released, Name: "n", Hold: 1, Call: 10, At: 20}
	b := soak.Event{Op: soak.Acquired, Name: "n", Hold: 2, Call: 5, At: 30, Fence: 11, Until: second}
	change(&a, &r, &b)
	return []soak.Event{a, r, b}
}

func TestVerdicts(t *testing.T) {
	cases := []struct {
		name    string
		illegal int
		change  func(first, released, second *soak.Event)
	}{
		{"one after the other", 0, func(_, _, _ *soak.Event) {}},
		{"before the release", 1, func(_, r, _ *soak.Event) { r.Call, r.At = 40, 50 }},
		{"before the release of a lease that was over", 0, func(a, r, _ *soak.Event) { a.Until, r.Call, r.At, r.Err = 25, 40, 50, "expired" }},
		{"a lease that was over is released well", 1, func(a, r, _ *soak.Event) { a.Until, r.Call, r.At = 25, 40, 50 }},
		{"both shared", 0, func(a, r, b *soak.Event) { a.Shared, b.Shared, b.Fence, r.Call, r.At = true, true, 10, 40, 50 }},
		{"a reader next to a writer", 1, func(_, r, b *soak.Event) { b.Shared, r.Call, r.At = true, 40, 50 }},
		{"the same fence", 1, func(_, _, b *soak.Event) { b.Fence = 10 }},
		{"a smaller fence", 1, func(_, _, b *soak.Event) { b.Fence = 9 }},
		{"adopted", 0, func(_, r, b *soak.Event) { b.Op, b.Other, r.Call, r.At, r.Err = soak.Adopted, 1, 40, 50, "lost" }},
		{"adopted after the release", 1, func(_, _, b *soak.Event) { b.Op, b.Other, b.Call = soak.Adopted, 1, 25 }},
	}
	for _, c := range cases {
		v, err := Check(history(c.change), "", time.Minute)
		if err != nil || v.Illegal != c.illegal || v.Unknown != 0 {
			t.Errorf("%s: %v, %v", c.name, v, err)
		}
	}
}

func TestConversions(t *testing.T) {
	a := soak.Event{Op: soak.Acquired, Name: "n", Hold: 1, Call: 1, At: 2, Fence: 10, Shared: true, Until: second}
	b := soak.Event{Op: soak.Acquired, Name: "n", Hold: 2, Call: 3, At: 4, Fence: 10, Shared: true, Until: second}
	p := soak.Event{Op: soak.Promoted, Name: "n", Hold: 1, Call: 5, At: 6, Fence: 11, Until: second}
	d := soak.Event{Op: soak.Demoted, Name: "n", Hold: 1, Call: 7, At: 8, Fence: 11, Shared: true, Until: second}
	r := soak.Event{Op: soak.Released, Name: "n", Hold: 2, Call: 9, At: 10}
	if v, err := Check([]soak.Event{a, p, d}, "", time.Minute); err != nil || v.OK != 1 {
		t.Errorf("a sole reader: %v, %v", v, err)
	}
	if v, err := Check([]soak.Event{a, b, p, r}, t.TempDir(), time.Minute); err != nil || v.Illegal != 1 {
		t.Errorf("two readers: %v, %v", v, err)
	}
}
