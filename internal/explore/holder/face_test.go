package holder

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/explore/steady"
)

// A face reads the unexported state of a Locker, while everything rests.
type face struct{ locker reflect.Value }

func faceOf(l *padlock.Locker) face {
	steady.Fix(l)
	return face{reflect.ValueOf(l).Elem()}
}

var field = steady.Field

func (f face) open() int64 { return field(f.locker, "cleaner", "open").Int() }

// isResting reports whether no goroutine works for the Locker, so that its fields say everything.
func (f face) isResting() bool {
	return f.open() == 0 && field(f.locker, "calls", "running").Int() == 0
}

// due returns when the renewer looks at a lock next, or 0.
func (f face) due() driver.Instant {
	heap := field(f.locker, "renewer", "heap")
	if heap.Len() == 0 {
		return 0
	}
	return driver.Instant(field(heap.Index(0), "at").Int())
}

// A leased is a Lock whose fields can be read.
type leased struct {
	*padlock.Lock
	hold reflect.Value
}

func leasedOf(l *padlock.Lock) *leased {
	return &leased{l, field(reflect.ValueOf(l), "h").Elem()}
}

func token(hold reflect.Value) string {
	return steady.Pointer[driver.Token](field(hold, "token")).Text()
}

// key writes the state of the Locker.
func (f face) key(k *key) {
	ints := func(v reflect.Value, names ...string) {
		for _, name := range names {
			k.add(fmt.Sprint(field(v, name)))
		}
	}
	ints(f.locker, "closed")
	ints(field(f.locker, "calls"), "running")
	ints(field(f.locker, "renewer"), "hidden", "workers", "starting", "stopped")
	ints(field(f.locker, "cleaner"), "open", "late", "workers", "stopped")
	k.add(fmt.Sprint(field(f.locker, "renewer", "due").Len(), field(f.locker, "cleaner", "jobs").Len()))
	var holds []string
	for i := range field(f.locker, "renewer", "heap").Len() {
		holds = append(holds, holdKey(k, field(field(f.locker, "renewer", "heap").Index(i), "h").Elem()))
	}
	k.add(strings.Join(holds, ","))
	lines := field(f.locker, "lines")
	for _, name := range lines.MapKeys() {
		turns := field(lines.MapIndex(name), "turns")
		for i := range turns.Len() {
			k.add(fmt.Sprint("turn", field(turns.Index(i), "state")))
			a := field(turns.Index(i), "a")
			ints(a, "cleanUp", "unsure", "first", "by", "late")
		}
	}
}

// holdKey describes a hold.
func holdKey(k *key, h reflect.Value) string {
	var b []string
	for _, name := range []string{"shared", "exported", "timedOut", "letGo", "cutOff"} {
		if field(h, name).Bool() {
			b = append(b, name)
		}
	}
	over := !field(h, "cause").IsNil()
	for _, name := range []string{"usable", "maxHoldAt", "renewAt"} {
		if over {
			break // nobody looks at the times any more, and two runs may leave different ones
		}
		v := field(h, name)
		if name == "usable" {
			v = field(v, "v")
		}
		b = append(b, k.instant(driver.Instant(v.Int())))
	}
	for _, name := range []string{"late", "renewing", "bond", "cause", "ctx", "converting"} { // what is there
		if !field(h, name).IsNil() {
			b = append(b, name)
		}
	}
	if r := field(h, "renewing"); !r.IsNil() {
		b = append(b, fmt.Sprint(field(r, "cancel").IsNil(), field(r, "done").IsNil(), field(r, "brokenOff")))
	}
	for _, name := range []string{"convertedAt", "demotionUntil"} { // they are compared with the sending of a request
		if at := field(h, name).Int(); at > 0 && k.now.Sub(driver.Instant(at)) <= driver.MaxSilence {
			b = append(b, name, fmt.Sprint(driver.Instant(at).Sub(k.now)))
		}
	}
	if field(h, "atLeast").Int() > 0 || !field(h, "late").IsNil() {
		age := k.now.Sub(driver.Instant(field(h, "grantedAt").Int()))
		b = append(b, fmt.Sprint(min(age, driver.MaxSilence)))
	}
	b = append(b, k.fence(field(h, "fence").Uint()), k.token(token(h)), fmt.Sprint(field(h, "released", "v").IsZero()))
	return strings.Join(b, " ")
}
