package sampler

import (
	"slices"
	"time"
)

// Defaults of the options.
const (
	DefaultInterval = time.Second
	DefaultMaxNames = 2000
)

const (
	patience = 10 * time.Second // how long one sample may take; one that takes longer has failed
	maxRate  = 1000             // names that are read in a second on average
)

// Option configures a Sampler.
type Option func(*settings)

type settings struct {
	interval      time.Duration
	prefix, place string
	watched       []string
	maxNames      int
	local         func() map[string]int
}

func newSettings(opts []Option) settings {
	set := settings{interval: DefaultInterval, maxNames: DefaultMaxNames}
	for _, o := range opts {
		if o != nil {
			o(&set)
		}
	}
	return set
}

// Interval sets the time from the end of one sample to the beginning of the next. The default is
// DefaultInterval, 1 s. The time is above 0; otherwise the default stays, and there is no error.
// The Sampler makes the interval longer if there are many names or the store is slow; see Cost.
func Interval(d time.Duration) Option {
	return func(s *settings) {
		if d > 0 {
			s.interval = d
		}
	}
}

// Place sets the text that names the store in snapshots (Snapshot.Place): any text without secrets.
// The default is the empty text.
func Place(text string) Option { return func(s *settings) { s.place = text } }

// Prefix restricts the Sampler to names that begin with p: any text. Without it, the Sampler sees
// all names.
func Prefix(p string) Option { return func(s *settings) { s.prefix = p } }

// Watch adds names. Each of them has a row in every sample, even if the name is free. A store that
// cannot list its names can be watched only in this way. Watch may be given several times. For slot
// 2 of a name, give fast.SlotName(name, 2). Without it, the Sampler sees only names that the
// store lists.
func Watch(names ...string) Option {
	return func(s *settings) { s.watched = append(slices.Clip(s.watched), names...) }
}

// MaxNames bounds how many names that are free the Sampler remembers. The default is
// DefaultMaxNames. The number is at least 1; otherwise the default stays, and there is no error.
// Names that are held are always remembered.
func MaxNames(n int) Option {
	return func(s *settings) {
		if n > 0 {
			s.maxNames = n
		}
	}
}

// LocalWaiters sets a function that counts the callers of this process that wait for each name. A row
// shows at least their number. Without it, and with nil, a row shows what the store counts: all
// callers of a process are one, because they take turns in its queue.
func LocalWaiters(count func() map[string]int) Option {
	return func(s *settings) { s.local = count }
}
