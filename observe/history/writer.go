package history

import (
	"context"
	"time"
)

// writeTime is how long one write to the store may take.
const writeTime = 5 * time.Second

// Writer writes one run to the directory and to the store of a Log. It writes in the background, so
// that the run does not wait. One goroutine may use it.
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

// Put writes r in the background, after the earlier states of the run, and returns at once.
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

// place writes runs into the directory or the store of a Log, one after the other.
type place struct {
	write func(context.Context, Run) error
	last  chan struct{} // closed when the last write is over; nil if there was none
	err   error         // of the last write
}

func (p *place) put(r Run) {
	before, over := p.last, make(chan struct{})
	p.last = over
	go func() {
		defer close(over)
		if before != nil {
			<-before
		}
		ctx, cancel := context.WithTimeout(context.Background(), writeTime)
		defer cancel()
		p.err = p.write(ctx, r)
	}()
}

func (p *place) wait(ctx context.Context) error {
	if p.last == nil {
		return nil
	}
	select {
	case <-p.last:
		return p.err
	case <-ctx.Done():
		return ctx.Err()
	}
}
