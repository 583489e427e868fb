//go:build linux

package main

import (
	"context"
	"errors"

	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/lab/bench/trial"
)

// limits returns the rows that show how fast a lock could be at best, on this machine and with this
// server. The clients in these rows cannot be used as locks.
func limits(r *rig) []trial.Peer {
	return []trial.Peer{
		{Name: limitAlone, In: alone, Open: r.at(openRueidis)},
		{Name: limitQueue, In: eachDrain | steadily, Open: r.at(openBlpop), Prime: r.primeBlpop},
	}
}

const (
	limitAlone = "limit-rueidis-1conn"
	limitQueue = "limit-blpop-tcp"
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

func (r *rig) primeBlpop(name string) error {
	_, err := r.admin.do(server.RedisCommand("RPUSH", name, "turn"))
	return err
}

func (b *blpop) lock(name string) (trial.Lock, error) {
	conn, err := b.site.resp()
	if err != nil {
		return nil, err
	}
	b.conns = append(b.conns, conn)
	pop, push := server.RedisCommand("BLPOP", name, "0"), server.RedisCommand("RPUSH", name, "turn")
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
