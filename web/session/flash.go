package session

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/padlock-go/padlock/web/session/sessionstore"
)

// flashPrefix separates the keys of flash messages from other keys. Each message has a key of its
// own, so messages of requests that come at once are all kept. The key ends with the time and with
// random letters. So sorting the keys sorts the messages by time.
const flashPrefix = "flash:"

// Flash leaves a message for a later request, which gets it with Flashes. There can be any number
// of messages under one key.
func (h *Session) Flash(key string, message any) error {
	s, _ := h.open()
	return h.Put(flashPrefix+key+":"+s.flashSuffix(), message)
}

// flashSuffix returns the end of the key of a message. It has no colon.
func (s *state) flashSuffix() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lastFlash = max(time.Now().UnixNano(), s.lastFlash+1)
	return strconv.FormatInt(s.lastFlash, 36) + rand.Text()[:6]
}

// Flashes removes the messages under a key in the store at once, and returns them, the oldest
// first. If several requests do that at the same time, exactly one gets each message. If that
// request fails later, nobody gets the message. A request by which a browser loads a page before its
// user has asked for it (Sec-Purpose: prefetch) gets no messages: they stay for the next request.
func Flashes[T any](ctx context.Context, s *Session, key string) ([]T, error) {
	of, _ := s.open()
	of.mu.Lock()
	defer of.mu.Unlock()
	if err := of.beginUse(ctx, true, key); err != nil {
		return nil, err
	}
	if of.prefetch {
		return nil, nil
	}
	var messages []T
	values, err := of.takeNow(ctx, of.flashKeys(key))
	for _, raw := range values {
		var m T
		if err := of.m.cfg.codec.Unmarshal(raw, &m); err != nil {
			return messages, fmt.Errorf("session: a message of %q: %w", key, err)
		}
		messages = append(messages, m)
	}
	return messages, err
}

// flashKeys returns the keys of the messages under a key, in the order of the messages.
func (s *state) flashKeys(key string) []string {
	var keys []string
	for _, k := range s.keys() {
		if suffix, ok := strings.CutPrefix(k, flashPrefix+key+":"); ok && !strings.Contains(suffix, ":") {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	return keys
}

// takeNow takes keys in one commit, together with their pending ops, and returns the values that it
// got. The caller holds s.mu and has called beginUse.
func (s *state) takeNow(ctx context.Context, keys []string) ([][]byte, error) {
	var ops []sessionstore.Op
	for _, key := range keys {
		if p, ok := s.pending.Get(key); ok {
			ops = append(ops, p)
		}
		ops = append(ops, sessionstore.Op{Kind: sessionstore.OpTake, Key: key})
	}
	if ops == nil {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.waitBound()+saveTime)
	defer cancel()
	res, err := s.commit(ctx, ops)
	if err != nil {
		return nil, err
	}
	var values [][]byte
	for i, op := range ops {
		if op.Kind == sessionstore.OpTake && res.Values[i] != nil {
			values = append(values, res.Values[i])
		}
	}
	return values, nil
}
