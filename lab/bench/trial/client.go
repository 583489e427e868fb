//go:build linux

// Package trial measures locks, whatever their server and library: pairs of a lock and an unlock,
// the drain of a queue, and workers that compete for a name. A library takes part as a [Peer],
// which opens clients.
package trial

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/lab/bench/measure"
)

// TTL is the lease for peers that let the caller choose it. It is longer than every trial.
const TTL = 30 * time.Second

// Patience is how long a worker waits for a lock before its trial fails. Only tests change it,
// before the bench begins.
var Patience = 20 * time.Second

// A Lock locks one name for one goroutine. It waits until ctx ends.
type Lock func(ctx context.Context) (unlock func() error, err error)

// Once locks and unlocks.
func (l Lock) Once(ctx context.Context) error {
	unlock, err := l(ctx)
	if err != nil {
		return err
	}
	return unlock()
}

// A Client has the connections of one process. Its locks share them.
type Client struct {
	Lock  func(name string) (Lock, error)
	Close func() error
}

// NewClient returns a Client from the two functions that most libraries have.
func NewClient(end func() error, lock func(ctx context.Context, name string) (unlock func() error, err error)) *Client {
	return &Client{Close: end, Lock: func(name string) (Lock, error) {
		return func(ctx context.Context) (func() error, error) { return lock(ctx, name) }, nil
	}}
}

// Opens makes the function Open of a Peer whose clients, made by Face or Driver, have a store each.
func Opens[S driver.Store](client func(driver.Store) *Client, open func() (S, error)) func(*Counter) (*Client, error) {
	return func(*Counter) (*Client, error) {
		s, err := open()
		if err != nil {
			return nil, err
		}
		return client(s), nil
	}
}

// Face returns a client that uses package padlock, as applications do.
func Face(s driver.Store) *Client {
	l := padlock.New(s, padlock.TTL(TTL))
	end := func() error { return l.Close(context.Background()) }
	return NewClient(end, func(ctx context.Context, name string) (func() error, error) {
		h, err := l.Acquire(ctx, name)
		if err != nil {
			return nil, err
		}
		return func() error { return h.Release() }, nil
	})
}

// Driver returns a client that uses a store without package padlock. Nothing waits, and nothing is
// renewed.
func Driver(s driver.Store) *Client {
	d := &direct{store: s}
	return NewClient(s.Close, d.lock)
}

type direct struct {
	store  driver.Store
	tokens atomic.Int64
}

// token returns a new token. It contains the pid, because each process of a trial has its own
// counter.
func (d *direct) token() string {
	return fmt.Sprintf("%p-%d-%d-padding-to-the-length-of-ours", d, os.Getpid(), d.tokens.Add(1))
}

func (d *direct) lock(ctx context.Context, name string) (func() error, error) {
	r := driver.Request{Name: name, Token: driver.TokenOf(d.token()), TTL: TTL, Holder: driver.Holder{Host: "bench", PID: os.Getpid()}}
	if _, err := d.store.Acquire(ctx, r); err != nil {
		return nil, err
	}
	return func() error {
		found, err := d.store.Release(context.Background(), name, r.Token.Text(), 0)
		if err == nil && found != driver.OutcomeReleased {
			err = fmt.Errorf("the release found the lock %v", found)
		}
		return err
	}, nil
}

// A Peer is one row of the tables: a library, or one of its settings.
type Peer struct {
	Name string
	In   Tables
	// Open opens a client, which may count in sent what it sends.
	Open func(sent *Counter) (*Client, error)
	// Waiting counts the processes that wait for a name; only Queue needs it.
	Waiting func(name string) (int, error)
	// Drains is how many queues are emptied before one is measured, with the same clients.
	Drains int
}

// Tables says in which experiments a peer has a row. Each bench gives the bits their names.
type Tables int

// Rows returns a row for each peer that has one in the tables in. Each makes a trial.
func Rows(all []Peer, in Tables, trial func(p *Peer) (measure.Figures, error)) (rows []measure.Row) {
	for _, p := range all {
		if p.In&in != 0 {
			rows = append(rows, measure.Row{Name: p.Name, Run: func() (measure.Figures, error) { return trial(&p) }})
		}
	}
	return rows
}

var names atomic.Int64

// NewName returns a name that no earlier trial of this process has used.
func NewName() string { return fmt.Sprint("bench:", os.Getpid(), ":", names.Add(1)) }

// NewNames returns n of them.
func NewNames(n int) (all []string) {
	for range n {
		all = append(all, NewName())
	}
	return all
}

// Start opens a client with a lock for each name. It locks and unlocks another name once, so that
// the connections exist and the server knows the scripts.
func (p *Peer) Start(sent *Counter, names ...string) (c *Client, locks []Lock, err error) {
	if c, err = p.Open(sent); err != nil {
		return nil, nil, err
	}
	for _, name := range append([]string{NewName()}, names...) {
		var l Lock
		if l, err = c.Lock(name); err != nil {
			return nil, nil, errors.Join(err, c.Close())
		}
		locks = append(locks, l)
	}
	if err = locks[0].warmUp(); err != nil {
		return nil, nil, errors.Join(err, c.Close())
	}
	return c, locks[1:], nil
}

func (l Lock) warmUp() error {
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	return l.Once(ctx)
}

// A party is a number of clients whose locks compete for one name.
type party struct {
	clients []*Client
	warm    []Lock // of each client, of names that nobody else wants, until they have been locked once
}

// gather opens n clients, as if each were another process.
func (p *Peer) gather(page *Page, n int) (*party, error) {
	all := &party{}
	for i := range n {
		c, err := p.Open(&page.Sent[i])
		if err != nil {
			return nil, errors.Join(err, all.close())
		}
		all.clients = append(all.clients, c)
		l, err := c.Lock(NewName())
		if err != nil {
			return nil, errors.Join(err, all.close())
		}
		all.warm = append(all.warm, l)
	}
	return all, nil
}

// locks returns n locks of a new name, spread over the clients. If there is another lock, for the
// holder that all wait for, it comes first, and has a client of its own if there are several. When
// the clients have their first locks, they are warmed up: some peers pass a turn around, from the
// lock that was made first to the next.
func (all *party) locks(n int, holder bool) (locks []Lock, err error) {
	name, clients := NewName(), all.clients
	if holder {
		n++
	}
	for i := range n {
		c := clients[i%len(clients)]
		if holder && i == 0 && len(clients) > 1 {
			c, clients = clients[0], clients[1:]
		}
		l, err := c.Lock(name)
		if err != nil {
			return nil, err
		}
		locks = append(locks, l)
	}
	for _, l := range all.warm {
		if err := l.warmUp(); err != nil {
			return nil, err
		}
	}
	all.warm = nil
	return locks, nil
}

// close closes all clients at the same time, because some clients need a while to close.
func (all *party) close() error {
	return Together(len(all.clients), func(i int) error { return all.clients[i].Close() })
}

// Together calls f(0) to f(n-1), each in its own goroutine, and waits for all calls.
func Together(n int, f func(i int) error) error {
	var all sync.WaitGroup
	errs := make([]error, n)
	for i := range n {
		all.Go(func() { errs[i] = f(i) })
	}
	all.Wait()
	return errors.Join(errs...)
}
