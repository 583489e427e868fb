package redisstore

import (
	"context"
	"strings"

	"github.com/padlock-go/padlock/driver"
	"github.com/redis/rueidis"
)

// Inspect implements driver.Admin.
func (s *Store) Inspect(ctx context.Context, name string) (driver.State, error) {
	if err := driver.CheckName(name, &s.guarantees); err != nil {
		return driver.State{}, err
	}
	c, err := s.ready(ctx, false)
	if err != nil {
		return driver.State{}, err
	}
	a, err := s.runScript(ctx, c, s.scripts.inspect, name)
	if err != nil {
		return driver.State{}, err
	}
	state, err := s.state(&a, name)
	if err == nil && len(state.Holds) == 0 {
		_, err = s.ready(ctx, true) // fails if the server may have lost the hold in a restart
	}
	return state, err
}

// state reads a reply of the kind replyState. The reply has the server's time, the number of
// waiters, the holds and the fence.
func (s *Store) state(a *answer, name string) (driver.State, error) {
	if a.kind != replyState || len(a.rest) < 4 {
		return driver.State{}, unreadable()
	}
	holds, ok := readHolds(&a.rest[2], a.number(0))
	fence, err := a.rest[3].AsInt64()
	if !ok || err != nil {
		return driver.State{}, unreadable()
	}
	return driver.State{Name: name, Waiters: int(a.number(1)), Holds: holds, Fence: s.callerFence(fence)}, nil
}

// List implements driver.Admin. It scans all keys that begin with the prefix, in portions. With
// PlainStrings, any string with an expiry counts as a lock.
func (s *Store) List(ctx context.Context, prefix string) ([]driver.State, error) {
	c, err := s.ready(ctx, false)
	if err != nil {
		return nil, err
	}
	patterns := []string{glob(s.config.prefix + prefix), glob(s.config.prefix+companionPrefix) + "???}n:" + glob(prefix)}
	if prefix == "" { // then the first pattern also matches all keys of the second one
		patterns = patterns[:1]
	}
	l := lister{s: s, c: c, prefix: prefix, seen: map[string]bool{}}
	for _, node := range c.Nodes() {
		for _, p := range patterns {
			if err := l.scan(ctx, node, p+"*"); err != nil {
				return nil, err
			}
		}
	}
	_, err = s.ready(ctx, true) // fails if the server may have lost holds in a restart
	return l.states, err
}

// glob makes a pattern that matches text and nothing else.
func glob(text string) string {
	var b strings.Builder
	for i := range len(text) {
		if strings.IndexByte(`*?[]\^-`, text[i]) >= 0 {
			b.WriteByte('\\')
		}
		b.WriteByte(text[i])
	}
	return b.String()
}

type lister struct {
	s      *Store
	c      *connected
	prefix string
	seen   map[string]bool
	states []driver.State
}

// scan lists the locks among the keys of one node.
func (l *lister) scan(ctx context.Context, node rueidis.Client, pattern string) error {
	kind := "zset"
	if l.s.config.strings {
		kind = "string"
	}
	for cursor := uint64(0); ; {
		e, err := node.Do(ctx, node.B().Scan().Cursor(cursor).Match(pattern).Count(1000).Type(kind).Build()).AsScanEntry()
		if err != nil {
			return l.s.failure(ctx, err)
		}
		if err := l.inspect(ctx, e.Elements); err != nil {
			return err
		}
		if cursor = e.Cursor; cursor == 0 {
			return nil
		}
	}
}

// inspect adds the locks of keys that are held or have waiters. It sends the requests for all keys
// together, so it needs one round trip.
func (l *lister) inspect(ctx context.Context, keys []string) error {
	var names []string
	var calls []scriptCall
	for _, key := range keys {
		name, ok := l.s.keys.nameOf(key)
		if !ok || l.seen[name] || !strings.HasPrefix(name, l.prefix) || len(name) > driver.MaxName {
			continue
		}
		l.seen[name] = true
		names = append(names, name)
		of := l.s.keys.lock(name)
		calls = append(calls, scriptCall{of.keys[:], []string{l.c.setting}})
	}
	if len(calls) == 0 {
		return nil
	}
	for i, resp := range l.s.scripts.inspect.doAll(ctx, l.c, calls) {
		if e, ok := rueidis.IsRedisErr(resp.Error()); ok && strings.HasPrefix(scriptError(e.Error()), codeType) {
			continue // an application's sorted set
		}
		a, err := l.s.readAnswer(ctx, resp)
		if err != nil {
			return err
		}
		st, err := l.s.state(&a, names[i])
		if err != nil {
			return err
		}
		if len(st.Holds) > 0 || st.Waiters > 0 {
			l.states = append(l.states, st)
		}
	}
	return nil
}
