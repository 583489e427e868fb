package padlockweb

import (
	"maps"
	"sync"
	"time"

	"github.com/padlock-go/padlock/observe/history"
)

const (
	keepRead    = 10 * time.Second
	keepPartial = time.Second // if something could not be read, the list lacks it
	maxLists    = 100
)

// jobsKey is everything on which a list of jobs depends, above all the prefix of the visitor.
type jobsKey struct {
	prefix string
	since  time.Duration
	failed bool
}

// jobList is a list of jobs, and why it may lack some.
type jobList struct {
	jobs  []history.Job
	err   error
	until time.Time
}

// keptJobs keeps lists of jobs, which are expensive to read: many streams and requests ask for the
// same one.
type keptJobs struct {
	mu  sync.Mutex
	all map[jobsKey]*jobList
}

// get returns the list, or nil if none is kept. It drops all old lists.
func (k *keptJobs) get(key jobsKey) *jobList {
	k.mu.Lock()
	defer k.mu.Unlock()
	maps.DeleteFunc(k.all, func(_ jobsKey, l *jobList) bool { return time.Now().After(l.until) })
	return k.all[key]
}

func (k *keptJobs) put(key jobsKey, l *jobList) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.all == nil || len(k.all) >= maxLists {
		k.all = make(map[jobsKey]*jobList)
	}
	l.until = time.Now().Add(keepRead)
	if l.err != nil {
		l.until = time.Now().Add(keepPartial)
	}
	k.all[key] = l
}
