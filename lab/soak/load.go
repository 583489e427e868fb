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
	Slots            int  // share of turns that take a permit
	Several          int  // share of turns that take several names at once
	Elections        int  // how many candidates each process has
	Short            int  // share of turns that wait for at most MaxShort, most of them for a name that is held
	Long             int  // how many goroutines of each process wait for long, one after the other has the name
	Questions        int  // share of turns that ask the holder to leave, and of holders that look for questions
	Asked            int  // how many goroutines of each process ask, and are asked on names that are held for long
	Newest           int  // how many goroutines of each process use package newest
	Paths            int  // how many goroutines of each process lock paths
	Weights          int  // how many goroutines of each process take permits with Weight
	Detached         int  // share of turns with the option Detached
	Observed         bool // whether every second process has an Observer
	Batch            int  // 0: older workers know with it that no lock is passed on in memory
}

// DefaultLoad returns the load for the soak of all stores.
func DefaultLoad() Load {
	return Load{
		Prefix: "soak:", Hot: 4, Warm: 256, ToHot: 8, Epoch: 5 * time.Second,
		MinTTL: 400 * time.Millisecond, MaxTTL: 2 * time.Second,
		MinHold: time.Millisecond, MaxHold: 6 * time.Millisecond, Wait: 3 * time.Second,
		Shared: 10, Convert: 5, HandOff: 2, Cancel: 1, Pause: 2, Fixed: 5, Verify: 10, Own: 2, Try: 5,
		Cool: 1, AtLeast: 1, Limit: 1, Break: 30, MinKeep: 100 * time.Millisecond, MaxKeep: 150 * time.Millisecond,
		Slots: 4, Several: 2, Elections: 1, Short: 6, Long: 1, Detached: 5, Observed: true,
	}
}

// maxShort is the longest time of a short wait.
const maxShort = 20 * time.Millisecond

// crowds is the number of names that short waits are for. Their holders keep them for longer than
// the usual ones.
const crowds = 2

func crowdName(prefix string, i int) string { return fmt.Sprintf("%scrowd:%d", prefix, i) }

// observed reports whether a worker has an Observer. Of four workers, two have one.
func (l *Load) observed(worker int) bool { return l.Observed && (worker%4 == 1 || worker%4 == 2) }

// fitTo returns the load without the features that the store does not have.
func (l Load) fitTo(g *driver.Guarantees) Load {
	if !g.Shared {
		l.Shared = 0
	}
	if g.Promotion == driver.PromotionNone {
		l.Convert = 0
	}
	switch {
	case g.Bound == driver.BoundToNothing:
		l.Detached = 0 // every lock is detached
	case !g.Detached:
		l.Detached, l.HandOff = 0, 0
	}
	if !g.CoolDown {
		l.Cool, l.AtLeast = 0, 0
	}
	if g.Bound != driver.BoundToNothing { // a killed holder frees the name at once
		l.AtLeast = 0
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
	ttl, hold, cancel, wait      time.Duration
	shared, convert, handOff     bool
	fixed, pause, verify, extend bool
	own, try, evict, detached    bool
	slots                        int  // how many permits the name has; 0 for a lock without slots
	weight                       int  // how many of them the turn takes with Weight; 0 for a turn without it
	several                      bool // the turn takes several names together
	cool, atLeast, limit         time.Duration
	asks                         bool   // the caller asks the holder to leave before it waits
	manner                       manner // what the holder does about questions
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
		own: d.percent(l.Own), try: d.percent(l.Try), wait: l.Wait,
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
	d.drawShort(&t)
	d.drawKeep(&t)
	d.drawDetached(&t)
	d.drawQuestions(&t)
	return t
}

// drawDetached draws whether the hold is bound to nothing although the store binds other holds.
// Only such a hold can be given away. It cannot be shared.
func (d *dice) drawDetached(t *turn) {
	detached := d.percent(d.load.Detached)
	if d.load.Detached > 0 && !t.several && (detached || t.handOff) {
		t.detached, t.shared, t.convert = true, false, false
	}
}

// drawShort draws whether the turn waits for a short time only.
func (d *dice) drawShort(t *turn) {
	short, wait, crowd := d.percent(d.load.Short), d.between(time.Millisecond, maxShort), d.IntN(crowds)
	if !short || t.own || t.pause {
		return
	}
	if t.wait, t.try = wait, false; t.slots == 0 && !t.several {
		t.name, t.hold = crowdName(d.load.Prefix, crowd), max(t.hold, wait)
	}
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

// manner is what a holder does about questions.
type manner int

const (
	neverLooks manner = iota
	leaves            // it ends its work when it is asked
	stays             // it notes the question and works on
	manners
)

// drawQuestions draws whether the caller of a turn asks the holder before it waits, and whether it
// looks for questions when it has the lock.
func (d *dice) drawQuestions(t *turn) {
	if d.load.Questions == 0 {
		return
	}
	asks, looks, how := d.percent(d.load.Questions), d.percent(d.load.Questions), 1+d.IntN(int(manners)-1)
	if t.own || t.several || t.slots > 0 {
		return
	}
	if t.asks = asks; looks && !t.convert && !t.handOff {
		t.manner = manner(how)
	}
}
