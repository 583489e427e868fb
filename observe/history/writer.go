package history

import (
	"context"
	"sync"
	"time"
)

// writeTime is how long one write to the store may take.
const writeTime = 5 * time.Second

// Writer writes one run to the directory and to the store of a Log. It writes in the background, so
// that the run does not wait. It is safe for concurrent use.
type Writer struct{ places []*place }

// Writer returns a writer for one run.
func (l *Log) Writer() *Writer {
	w := &Writer{}
	if l.dir != nil {
		w.places = append(w.places, &place{write: func(_ context.Context, r Run) error {
			return inDir(l.dir.Write(r.Name, r.records()))
		}})
	}
	if l.store != nil {
		w.places = append(w.places, &place{write: func(ctx context.Context, r Run) error {
			return inStore(l.store.Record(ctx, r.Name, r.records()))
		}})
	}
	return w
}

// Put writes r in the background and returns at once. If an earlier state of the run has not been
// written yet, only the later state is written.
func (w *Writer) Put(r Run) {
	for _, p := range w.places {
		p.put(r)
	}
}

// Wait returns when everything is written, or when ctx ends. The error says whether it comes from
// the directory or from the store. If ctx has ended, the run may still be written later, as long as
// the process and the store live.
func (w *Writer) Wait(ctx context.Context) error {
	var errs []error
	for _, p := range w.places {
		errs = append(errs, p.wait(ctx))
	}
	return join(errs)
}

// place writes runs into the directory or the store of a Log. One goroutine at a time writes.
type place struct {
	write func(context.Context, Run) error

	mu   sync.Mutex
	next *Run          // what is to be written next, or nil
	idle chan struct{} // closed when nothing is left to write; nil if nothing was put yet
	busy bool
	err  error // of the last write
}

func (p *place) put(r Run) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.next = &r
	if !p.busy {
		p.busy, p.idle = true, make(chan struct{})
		go p.work()
	}
}

// work writes until nothing is left.
func (p *place) work() {
	for {
		p.mu.Lock()
		r := p.next
		p.next = nil
		if r == nil {
			p.busy = false
			close(p.idle)
			p.mu.Unlock()
			return
		}
		p.mu.Unlock()
		ctx, cancel := context.WithTimeout(context.Background(), writeTime)
		err := p.write(ctx, *r)
		cancel()
		p.mu.Lock()
		p.err = err
		p.mu.Unlock()
	}
}

func (p *place) wait(ctx context.Context) error {
	p.mu.Lock()
	idle := p.idle
	p.mu.Unlock()
	if idle != nil {
		select {
		case <-idle:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}
