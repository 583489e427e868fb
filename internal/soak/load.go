package soak

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/padlock-go/padlock/driver"
)

// Load says how the workers use locks. A turn is one task of a worker. Shares are percentages of
// all turns.
type Load struct {
	Prefix                   string        // the prefix of all names
	Hot, Warm                int           // numbers of hot and warm names
	ToHot                    int           // share of turns on hot names
	Epoch                    time.Duration // how often hot names are replaced, so that their histories stay short
	MinTTL, MaxTTL           time.Duration
	MinHold, MaxHold         time.Duration
	Wait                     time.Duration
	Shared, Convert, HandOff int
	Cancel, Fixed            int
	Pause                    int // pauses per 1000 turns; only a quarter of that on hot names, because a pause there makes many workers wait
	Verify, Own, Try         int
	Cool, AtLeast, Limit     int // shares of turns with a cool-down, with HoldAtLeast and with MaxHold
	// Break is the percentage of turns that call Break, among the turns on the worker's own names.
	Break int
	// Cool-downs and HoldAtLeast are drawn from this range. The option MaxHold is set to a fifth of
	// a time that is drawn from this range.
	MinKeep, MaxKeep time.Duration
	Slots            int // share of turns that take a permit
	Several          int // share of turns that take several names at once
	Elections        int // how many candidates each process has
	// If Batch is greater than 1, every second process uses PassLocally. Batch is the number of
	// holders after which the store gets the lock back.
	Batch int
}

// DefaultLoad returns the load for the soak of all stores.
func DefaultLoad() Load {
	return Load{
		Prefix: "soak:", Hot: 4, Warm: 256, ToHot: 8, Epoch: 5 * time.Second,
		MinTTL: 400 * time.Millisecond, MaxTTL: 2 * time.Second,
		MinHold: time.Millisecond, MaxHold: 6 * time.Millisecond, Wait: 3 * time.Second,
		Shared: 10, Convert: 5, HandOff: 2, Cancel: 1, Pause: 2, Fixed: 5, Verify: 10, Own: 2, Try: 5,
		Cool: 1, AtLeast: 1, Limit: 1, Break: 30, MinKeep: 100 * time.Millisecond, MaxKeep: 150 * time.Millisecond, Batch: 4,
		Slots: 4, Several: 2, Elections: 1,
	}
}

// fitTo returns the load without the features that the store does not have.
func (l Load) fitTo(g *driver.Guarantees) Load {
	if !g.Shared {
		l.Shared = 0
	}
	if g.Promotion == driver.NoPromotion {
		l.Convert = 0
	}
	if g.Bound != driver.ToNothing {
		l.HandOff = 0
	}
	if !g.CoolDown {
		l.Cool, l.AtLeast = 0, 0
	}
	l.MinTTL = max(l.MinTTL, g.MinTTL)
	l.MaxTTL = max(l.MaxTTL, l.MinTTL)
	l.MinKeep = max(l.MinKeep, g.MinTTL)
	l.MaxKeep = max(l.MaxKeep, l.MinKeep)
	if g.MaxTTL > 0 {
		l.MinTTL, l.MaxTTL = min(l.MinTTL, g.MaxTTL), min(l.MaxTTL, g.MaxTTL)
	}
	return l
}

// turn is one task of a worker.
type turn struct {
	name                         string
	ttl, hold, cancel            time.Duration
	shared, convert, handOff     bool
	fixed, pause, verify, extend bool
	own, try, evict              bool
	slots                        int  // how many permits the name has; 0 for a lock without slots
	several                      bool // the turn takes several names together
	cool, atLeast, limit         time.Duration
}

// dice draws turns at random. With the same seed a worker draws the same turns.
type dice struct {
	*rand.Rand
	load Load
	own  string
	base int64 // when the run began
}

func (d *dice) percent(n int) bool { return d.IntN(100) < n }

func (d *dice) between(low, high time.Duration) time.Duration {
	return low + time.Duration(d.Int64N(int64(high-low)+1))
}

func (d *dice) name() string {
	if !d.percent(d.load.ToHot) && d.load.Warm > 0 || d.load.Hot == 0 {
		return fmt.Sprintf("%swarm:%d", d.load.Prefix, d.IntN(d.load.Warm))
	}
	return fmt.Sprintf("%shot:%d:%d", d.load.Prefix, d.IntN(d.load.Hot), (clockNow()-d.base)/int64(d.load.Epoch))
}

func (d *dice) draw() turn {
	l := &d.load
	t := turn{
		name: d.name(), ttl: d.between(l.MinTTL, l.MaxTTL), hold: d.between(l.MinHold, l.MaxHold),
		shared: d.percent(l.Shared), convert: d.percent(l.Convert), handOff: d.percent(l.HandOff),
		fixed: d.percent(l.Fixed), verify: d.percent(l.Verify), extend: d.percent(50),
		own: d.percent(l.Own), try: d.percent(l.Try),
	}
	pauses := 4 * l.Pause
	if strings.HasPrefix(t.name, l.Prefix+"hot:") {
		pauses /= 4
	}
	t.pause = d.IntN(4000) < pauses
	t.shared = t.shared || t.convert && d.percent(50)
	t.fixed = t.fixed || t.pause
	if d.percent(l.Cancel) {
		t.cancel = d.between(0, 20*time.Millisecond) + 1
	}
	if t.own {
		t.name, t.shared, t.convert, t.handOff, t.pause = d.own, false, false, false, false
		t.evict = d.percent(l.Break)
	}
	slots, several := d.percent(l.Slots), d.percent(l.Several)
	switch {
	case t.own:
	case slots:
		t.name, t.slots = permitName(l), permitCount
		t.shared, t.convert, t.handOff = false, false, false
	case several:
		t.several, t.shared, t.convert, t.handOff, t.pause = true, false, false, false, false
	}
	d.drawKeep(&t)
	return t
}

// drawKeep draws the cool-down, HoldAtLeast or MaxHold of a turn.
func (d *dice) drawKeep(t *turn) {
	l := &d.load
	cool, atLeast, limit := d.percent(l.Cool), d.percent(l.AtLeast), d.percent(l.Limit)
	length := d.between(l.MinKeep, l.MaxKeep)
	if hot := strings.HasPrefix(t.name, l.Prefix+"hot:"); hot || t.own || t.several || t.shared || t.convert || t.handOff || t.pause {
		return
	}
	switch {
	case cool:
		t.cool = length
	case atLeast:
		t.atLeast = length
	case limit: // much shorter than any TTL, so that only MaxHold ends the hold
		t.limit, t.hold, t.fixed, t.verify = length/5, length, false, false
	}
}
