package sampler

import (
	"slices"
	"time"

	"github.com/padlock-go/padlock/internal/group"
)

// Defaults of the options.
const (
	DefaultInterval  = time.Second
	DefaultPatience  = 10 * time.Second
	DefaultMaxNames  = 2000
	DefaultMaxRate   = 1000
	DefaultMaxGroups = 100
)

// Other is the group of the names that have no group of their own because there are too many
// groups.
const Other = "_other"

// Option configures a Sampler.
type Option func(*settings)

type settings struct {
	interval, patience time.Duration
	prefix, place      string
	watched            []string
	group              func(name string) string
	maxNames, maxRate  int
	maxGroups          int
}

func newSettings(opts []Option) settings {
	set := settings{
		interval: DefaultInterval, patience: DefaultPatience, group: group.Of,
		maxNames: DefaultMaxNames, maxRate: DefaultMaxRate, maxGroups: DefaultMaxGroups,
	}
	for _, o := range opts {
		if o != nil {
			o(&set)
		}
	}
	return set
}

// Interval sets the time from the end of one sample to the beginning of the next. The default is
// DefaultInterval, 1 s. The time is above 0; otherwise the default stays, and there is no error.
// The Sampler makes the interval longer if there are many names or the store is slow; see MaxRate.
func Interval(d time.Duration) Option {
	return func(s *settings) {
		if d > 0 {
			s.interval = d
		}
	}
}

// Patience bounds how long one sample may take. A sample that takes longer counts as failed. The
// default is DefaultPatience, 10 s. The time is above 0; otherwise the default stays, and there is
// no error.
func Patience(d time.Duration) Option {
	return func(s *settings) {
		if d > 0 {
			s.patience = d
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
// 2 of a name, give driver.SlotName(name, 2). Without it, the Sampler sees only names that the
// store lists.
func Watch(names ...string) Option {
	return func(s *settings) { s.watched = append(slices.Clip(s.watched), names...) }
}

// GroupBy makes f choose the group of a name. The default is the text before the first ':' or '/'.
// f is called from one goroutine at a time. If f is nil, the default stays.
func GroupBy(f func(name string) string) Option {
	return func(s *settings) {
		if f != nil {
			s.group = f
		}
	}
}

// rowsForEach is how many rows without a past a snapshot may have for each name that the Sampler
// may remember.
const rowsForEach = 50

// MaxNames bounds how many names the Sampler remembers. The default is DefaultMaxNames. The number
// is at least 1; otherwise the default stays, and there is no error. If more names than that are
// held, the others have rows without a past (see Snapshot.Untracked), up to fifty times as many.
// Snapshot.Unshown counts names beyond that.
func MaxNames(n int) Option {
	return func(s *settings) {
		if n > 0 {
			s.maxNames = n
		}
	}
}

// MaxRate bounds how many names the Sampler reads in a second on average. The default is
// DefaultMaxRate. The number is at least 1; otherwise the default stays, and there is no error.
// With more names than that, it samples less often.
func MaxRate(n int) Option {
	return func(s *settings) {
		if n > 0 {
			s.maxRate = n
		}
	}
}

// MaxGroups limits the number of groups, not counting Other. The default is DefaultMaxGroups. The
// number is 0 or more; a negative n has no effect.
func MaxGroups(n int) Option {
	return func(s *settings) {
		if n >= 0 {
			s.maxGroups = n
		}
	}
}
