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
	by    map[string]map[waitID]driver.Instant // until when
	swept driver.Instant
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
func (l *ledger) note(client string, id waitID, now, until driver.Instant) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.by[client] == nil {
		l.by[client] = make(map[waitID]driver.Instant)
	}
	l.by[client][id] = until
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

func (l *ledger) forget(client string, id waitID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.by[client], id)
	if len(l.by[client]) == 0 {
		delete(l.by, client)
	}
}

// sweep removes the locks that are over.
func sweep(locks map[waitID]driver.Instant, now driver.Instant) {
	for id, until := range locks {
		if until <= now {
			delete(locks, id)
		}
	}
}
