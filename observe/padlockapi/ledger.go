package padlockapi

import (
	"sync"
	"time"

	"github.com/padlock-go/padlock/driver"
)

// ledger counts the locks that this Handler has granted or extended, for each visitor. It bounds
// what one visitor can put into the store and into the memory of this process. A lock that was
// released elsewhere counts until its lease ends.
type ledger struct {
	most int

	mu    sync.Mutex
	by    map[string]map[waitID]entry
	swept driver.Instant
}

// entry is a lock of a visitor.
type entry struct {
	until driver.Instant
	slot  int // -1 if the lock is no permit
}

const sweepEvery = time.Minute

// room reports whether the visitor may have one more lock, or has this one already.
func (l *ledger) room(client string, id waitID, now driver.Instant) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	locks := l.by[client]
	if _, has := locks[id]; has || len(locks) < l.most {
		return true
	}
	sweep(locks, now)
	return len(locks) < l.most
}

// note records a lock. It also removes what is over from time to time.
func (l *ledger) note(client string, id waitID, now driver.Instant, e entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.by[client] == nil {
		l.by[client] = make(map[waitID]entry)
	}
	l.by[client][id] = e
	if now.Sub(l.swept) < sweepEvery {
		return
	}
	l.swept = now
	for client, locks := range l.by {
		if sweep(locks, now); len(locks) == 0 {
			delete(l.by, client)
		}
	}
}

// slot returns the permit that the visitor has, or -1 if none is known.
func (l *ledger) slot(client string, id waitID) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e, ok := l.by[client][id]; ok {
		return e.slot
	}
	return -1
}

func (l *ledger) forget(client string, id waitID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.by[client], id)
	if len(l.by[client]) == 0 {
		delete(l.by, client)
	}
}

// sweep removes the locks that are over.
func sweep(locks map[waitID]entry, now driver.Instant) {
	for id, e := range locks {
		if e.until <= now {
			delete(locks, id)
		}
	}
}
