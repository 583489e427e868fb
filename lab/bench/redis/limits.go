//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"

	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/lab/bench/trial"
)

// limits returns the rows that show how fast a lock could be at best, on this machine and with this
// server. The clients in these rows cannot be used as locks.
func limits(r *rig) []trial.Peer {
	return []trial.Peer{
		{Name: limitAlone, In: alone, Open: r.at(openRueidis)},
		{Name: limitQueue, In: eachDrain | steadily, Open: r.at(openBlpop)},
		{Name: limitHop, In: oneDrain, Open: r.at(openHop)},
	}
}

const (
	limitAlone = "limit-rueidis-1conn"
	limitQueue = "limit-blpop-tcp"
	limitHop   = "limit-pubsub-tcp"
)

// blpop hands a lock over with a list of one element. BLPOP takes the element from the list, and
// waits for it if necessary, first come, first served. RPUSH puts the element into the list again.
// Each waiter needs its own connection. There is no owner and no lease, so this is not a safe lock.
type blpop struct {
	site  site
	conns []*resp
}

func openBlpop(s site) (*trial.Client, error) {
	b := &blpop{site: s}
	return &trial.Client{Lock: b.lock, Close: b.close}, nil
}

func (b *blpop) close() error {
	var err error
	for _, c := range b.conns {
		err = errors.Join(err, c.Close())
	}
	return err
}

func (b *blpop) lock(name string) (trial.Lock, error) {
	conn, err := b.site.resp()
	if err != nil {
		return nil, err
	}
	b.conns = append(b.conns, conn)
	pop, push := server.RedisCommand("BLPOP", name, "0"), server.RedisCommand("RPUSH", name, "turn")
	// The first party of a name puts the element into the list.
	first, err := conn.do(server.RedisCommand("SET", name+":begun", "yes", "NX"))
	if err == nil && first != nil {
		_, err = conn.do(push)
	}
	if err != nil {
		return nil, err
	}
	unlock := func() error {
		_, err := conn.do(push)
		return err
	}
	return func(ctx context.Context) (func() error, error) {
		if err := conn.applyDeadline(ctx); err != nil {
			return nil, err
		}
		reply, err := conn.do(pop)
		if err == nil && reply == nil {
			err = errors.New("BLPOP returned nothing")
		}
		return unlock, err
	}, nil
}

// hop measures how long a message takes through the server. It is used like a lock, but nothing is
// locked. Its parties take turns in an order that all of them know before the trial. Each party
// passes the turn to the next party with one PUBLISH. One subscriber receives all messages and
// wakes the parties.
type hop struct {
	channel string
	turns   []chan struct{} // turns[i] wakes party i
	next    int             // the number of parties
	publish *resp
	mu      sync.Mutex // guards writes to publish
	in      *resp      // the subscriber
	over    sync.WaitGroup
}

func openHop(s site) (*trial.Client, error) {
	h := &hop{channel: "bench:hop", turns: make([]chan struct{}, trial.MaxParties)}
	for i := range h.turns {
		h.turns[i] = make(chan struct{}, 1)
	}
	h.turns[0] <- struct{}{}
	var err error
	if h.publish, err = s.resp(); err != nil {
		return nil, err
	}
	// This connection only sends PUBLISH, to pass the turn on. Nobody waits for the replies, so the
	// server need not send them.
	if _, err := h.publish.Write(server.RedisCommand("CLIENT", "REPLY", "OFF")); err != nil {
		return nil, err
	}
	if h.in, err = s.resp(); err != nil {
		return nil, err
	}
	if _, err := h.in.do(server.RedisCommand("SUBSCRIBE", h.channel)); err != nil {
		return nil, err
	}
	h.over.Go(h.dispatch)
	return &trial.Client{Lock: h.lock, Close: h.close}, nil
}

// dispatch reads the messages. Each message contains the number of a party, and dispatch wakes that
// party.
func (h *hop) dispatch() {
	for {
		reply, err := h.in.read()
		if err != nil {
			return
		}
		message := reply.([]any)
		if i, err := strconv.Atoi(message[2].(string)); err == nil && i < len(h.turns) {
			h.turns[i] <- struct{}{}
		}
	}
}

func (h *hop) close() error {
	err := errors.Join(h.in.Close(), h.publish.Close())
	h.over.Wait()
	return err
}

// lock adds a party and returns its Lock. The parties get their turns in the order in which
// they were added.
func (h *hop) lock(string) (trial.Lock, error) {
	i := h.next
	h.next++
	if i >= len(h.turns) {
		return nil, fmt.Errorf("more than %d parties", len(h.turns))
	}
	pass := server.RedisCommand("PUBLISH", h.channel, strconv.Itoa(i+1))
	unlock := func() error {
		h.mu.Lock()
		defer h.mu.Unlock()
		_, err := h.publish.Write(pass)
		return err
	}
	return func(ctx context.Context) (func() error, error) {
		select {
		case <-h.turns[i]:
			return unlock, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}, nil
}
