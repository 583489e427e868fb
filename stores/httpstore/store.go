package httpstore

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit"
	"github.com/padlock-go/padlock/storekit/overhttp"
)

// Store keeps locks in the store of one or more servers. It is safe for concurrent use.
type Store struct {
	calls   storekit.Calls
	servers []server
	first   atomic.Int32 // the server that is asked first
	clock   driver.Clock
	g       driver.Guarantees
	id      string // of the store; "" if Open has not learned it
	spread  spread
}

// Open opens a store. Unless the store is lazy, Open asks all servers what they promise. At least
// one must answer, and all that answer must offer the same store. ctx bounds only the opening.
func Open(ctx context.Context, c Config, opts ...Option) (*Store, error) {
	all := config{Config: c}
	storekit.Apply(&all, opts)
	bases, err := all.bases()
	if err != nil {
		return nil, err
	}
	s := &Store{clock: driver.SystemClock(), g: least()}
	s.calls.Open()
	transport := all.transport()
	for _, base := range bases {
		client := overhttp.New(base, transport)
		client.Sign = signer(all.Token)
		s.servers = append(s.servers, server{client, make(chan struct{}, maxLeaving)})
	}
	if all.examine || !all.lazy {
		if err := s.learn(ctx); err != nil && !all.examine {
			s.Close()
			return nil, err
		}
	}
	return s, nil
}

// Guarantees returns the promises that the servers made when the store was opened, without those
// that cannot be kept over HTTP.
func (s *Store) Guarantees() driver.Guarantees { return s.g }

// Close ends the waits, and waits until their places are given up. It releases no locks.
func (s *Store) Close() error {
	if !s.calls.End() {
		return nil
	}
	s.calls.Work.Wait()
	for _, server := range s.servers {
		server.Close()
	}
	return nil
}

// lock is the body of a request about one lock. Fields that are empty are not sent.
type lock struct {
	Name       string `json:"name,omitempty"`
	NameBase64 []byte `json:"name_base64,omitempty"`
	Token      string `json:"token,omitempty"`
	Replaces   string `json:"replaces,omitempty"`
	Label      string `json:"label,omitempty"`
	TTL        int64  `json:"ttl_ms,omitempty"`
	Wait       int64  `json:"wait_ms,omitempty"`
	Keep       int64  `json:"keep_ms,omitempty"`
	FenceAbove uint64 `json:"fence_above,omitempty"`
	AtLeast    uint64 `json:"fence_at_least,omitempty"`
	Fence      uint64 `json:"fence,omitempty"`
	Shared     bool   `json:"shared,omitempty"`
}

// named returns a body with a name. JSON has text only, so a name of other bytes is sent in base64.
func named(name string) lock {
	if isText(name) {
		return lock{Name: name}
	}
	return lock{NameBase64: []byte(name)}
}

func isText(s string) bool {
	return strings.ToValidUTF8(s, "") == s && !strings.ContainsRune(s, '\uFFFD')
}

// acquiring returns the body of an acquire.
func (s *Store) acquiring(r *driver.Request) lock {
	b := named(r.Name)
	b.Token, b.Shared, b.TTL = wireToken(r.Token.Text()), r.Shared, lease(r.TTL)
	b.FenceAbove, b.Label = r.FenceAbove, s.label(&r.Holder)
	if r.Replaces.Text() != "" {
		b.Replaces = wireToken(r.Replaces.Text())
	}
	return b
}

// wireToken returns the token as servers accept it: 16 to 128 printable characters. Any other token
// is sent as its hash.
func wireToken(token string) string {
	odd := func(r rune) bool { return r < '!' || r > '~' }
	if len(token) >= 16 && len(token) <= driver.MaxToken && !strings.ContainsFunc(token, odd) {
		return token
	}
	sum := sha256.Sum256([]byte(token))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// label returns the label with the holder's process: as host and pid, others see those of the
// server.
func (s *Store) label(h *driver.Holder) string {
	text := strings.ReplaceAll(strings.ToValidUTF8(h.Label, "?"), "\uFFFD", "?")
	most := driver.MaxLabel
	if s.g.MaxLabel > 0 {
		most = s.g.MaxLabel
	}
	if long := strings.TrimSpace(text + " " + process(h)); len(long) <= most {
		return long
	}
	return text
}

// Acquire makes one try; see driver.Store.
func (s *Store) Acquire(ctx context.Context, r driver.Request) (driver.Grant, error) {
	if err := r.Validate(&s.g); err != nil {
		return driver.Grant{}, err
	}
	var out granted
	err := s.change(ctx, "acquire", s.acquiring(&r), &out)
	if errors.Is(err, driver.ErrExpired) { // the time to work was over, but the store may still have the hold
		return driver.Grant{}, fmt.Errorf("%w: %s", driver.ErrUncertain, err)
	}
	if err != nil {
		return driver.Grant{}, err
	}
	g := s.grant(&out)
	if r.Replaces.Text() != "" {
		g.Shared = out.Shared
		s.leaveSpread(r.Name, r.Replaces.Text())
	}
	return g, nil
}

// granted is what acquire and extend answer.
type granted struct {
	Fence   uint64 `json:"fence"`
	ValidMS *int64 `json:"valid_ms"`
	Shared  bool   `json:"shared"`
}

func (g *granted) complete() bool { return g.ValidMS != nil }

// released is what release answers.
type released struct {
	Outcome string `json:"outcome"`
}

func (r *released) complete() bool { _, known := outcomes[r.Outcome]; return known }

// grant returns the grant of an answer. Its time counts from the moment at which the request was
// sent.
func (s *Store) grant(out *granted) driver.Grant {
	g := driver.Grant{Fence: out.Fence, TTL: max(duration(*out.ValidMS), time.Microsecond)}
	if s.g.Fence == driver.FenceNone {
		g.Fence = 0 // a lazily opened store promises none
	}
	return g
}

// Extend extends or verifies a hold; see driver.Store.
func (s *Store) Extend(ctx context.Context, name, token string, ttl time.Duration) (driver.Grant, error) {
	if err := driver.CheckExtend(name, token, ttl, &s.g); err != nil {
		return driver.Grant{}, err
	}
	body, out := named(name), granted{}
	body.Token, body.TTL = wireToken(token), lease(ttl)
	if err := s.change(ctx, "extend", body, &out); err != nil {
		return driver.Grant{}, err
	}
	g := s.grant(&out)
	g.Fence, g.Shared = 0, out.Shared
	return g, nil
}

// RaiseFence implements driver.FenceRaiser.
func (s *Store) RaiseFence(ctx context.Context, name, token string, fence uint64) error {
	err := driver.CheckHold(name, token, &s.g)
	if err == nil {
		err = driver.CheckFence(fence)
	}
	if err != nil {
		return err
	}
	body := named(name)
	body.Token, body.AtLeast = wireToken(token), fence
	return s.change(ctx, "extend", body, &granted{})
}

// Release ends a hold; see driver.Store.
func (s *Store) Release(ctx context.Context, name, token string, keep time.Duration) (driver.Outcome, error) {
	if err := driver.CheckRelease(name, token, keep, &s.g); err != nil {
		return driver.OutcomeGone, err
	}
	body := named(name)
	body.Token, body.Keep = wireToken(token), millis(keep)
	var out released
	if err := s.change(ctx, "release", body, &out); err != nil {
		return driver.OutcomeGone, err
	}
	s.leaveSpread(name, token)
	return outcomes[out.Outcome], nil
}

var outcomes = map[string]driver.Outcome{
	"released": driver.OutcomeReleased, "expired": driver.OutcomeExpired, "taken": driver.OutcomeTaken, "gone": driver.OutcomeGone,
}
