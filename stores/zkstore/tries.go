package zkstore

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/padlock-go/padlock/driver"
)

// A try makes a node and deletes it again if it is refused. Both are writes, which cost the servers
// much more than reads. So when many goroutines of this process try the same name at the same time,
// one of them asks the servers and the others wait for its result:
//
//	result of the try      what the others do
//	refused                the same, if the try began after their own call; else one of them tries
//	granted, or an error   one of them tries
//
// If a hold of this process has the name, the next try only reads the queue.

// tries contains the tries that are running, by the name of the lock.
type tries struct {
	mu      sync.Mutex
	running map[string]*try
}

type try struct {
	done    chan struct{}
	refused *driver.HeldError // set before done is closed; nil if the try was not refused
}

// maxTurnWait is how long a try waits for another one. After that it asks the servers at the same
// time, since the other one may wait for a reply that never comes.
const maxTurnWait = 500 * time.Millisecond

// run calls ask, unless it can return the refusal of another try.
func (t *tries) run(ctx context.Context, name string, ask func() error) error {
	patience := time.NewTimer(maxTurnWait)
	defer patience.Stop()
	for laterTry := false; ; laterTry = true {
		other, own := t.begin(name)
		if own != nil {
			err := ask()
			t.end(name, own, err)
			return err
		}
		select {
		case <-other.done:
		case <-ctx.Done():
			return ctx.Err()
		case <-patience.C:
			return ask()
		}
		if laterTry && other.refused != nil {
			refused := *other.refused
			return &refused
		}
	}
}

// begin registers a new try for the name, unless another one is running. Then it returns the other
// one.
func (t *tries) begin(name string) (other, own *try) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if other := t.running[name]; other != nil {
		return other, nil
	}
	own = &try{done: make(chan struct{})}
	t.running[name] = own
	return nil, own
}

func (t *tries) end(name string, own *try, err error) {
	errors.As(err, &own.refused)
	t.mu.Lock()
	delete(t.running, name)
	t.mu.Unlock()
	close(own.done)
}
