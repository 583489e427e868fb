package padlockhttp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/padlock-go/padlock/web/session/sessionstore"
)

// Results keeps the answers of [Idempotency]. Every sessionstore.BlobStore is one: Redis.Blobs of
// module redissession, and Store.Blobs of package sqlsession. [Memory] is one for a single server.
type Results interface {
	// Get returns the value at key, or sessionstore.ErrNotFound.
	Get(ctx context.Context, key string) (sessionstore.Blob, error)

	// Swap keeps data at key for ttl, if there is no value at key, and returns true. Otherwise it
	// returns the value that is there. old is always nil.
	Swap(ctx context.Context, key string, old *sessionstore.Blob, data []byte, ttl time.Duration) (done bool, present *sessionstore.Blob, err error)
}

// Memory keeps answers in this process: for a single server, and for tests. It forgets them when
// their time is over or the process ends. It has no bound: clients that send many keys fill the
// memory with up to Idempotency.MaxBytes for each key, for as long as Idempotency.KeepFor says. The
// zero value is ready for use, and it is safe for concurrent use.
type Memory struct {
	mu    sync.Mutex
	kept  map[string]keptUntil
	sweep int // how many answers there may be before those whose time is over are removed
}

type keptUntil struct {
	data []byte
	end  time.Time
}

// Get implements Results.
func (m *Memory) Get(_ context.Context, key string) (sessionstore.Blob, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if v, ok := m.kept[key]; ok && time.Until(v.end) > 0 {
		return sessionstore.Blob{Data: v.data, TTL: time.Until(v.end)}, nil
	}
	return sessionstore.Blob{}, sessionstore.ErrNotFound
}

// Swap implements Results.
func (m *Memory) Swap(_ context.Context, key string, _ *sessionstore.Blob, data []byte, ttl time.Duration) (bool, *sessionstore.Blob, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	if v, there := m.kept[key]; there && v.end.After(now) {
		return false, &sessionstore.Blob{Data: v.data, TTL: v.end.Sub(now)}, nil
	}
	if len(m.kept) >= m.sweep {
		for k, v := range m.kept {
			if !v.end.After(now) {
				delete(m.kept, k)
			}
		}
		m.sweep = 2*len(m.kept) + 64
	}
	if m.kept == nil {
		m.kept = make(map[string]keptUntil)
	}
	m.kept[key] = keptUntil{bytes.Clone(data), now.Add(ttl)}
	return true, nil, nil
}

// keptVersion is the version of the format in which answers are kept.
const keptVersion = 1

// A kept is an answer as Results has it.
type kept struct {
	Version int         `json:"v"`
	Print   string      `json:"print"`          // the fingerprint of the request
	Form    string      `json:"form,omitempty"` // that of a form in parts, see prints
	Status  int         `json:"status"`
	Header  http.Header `json:"header,omitempty"`
	Body    []byte      `json:"body,omitempty"`
	Gone    bool        `json:"too_large,omitempty"` // Body was too large to keep, or it was cut
}

func (k *kept) encode() ([]byte, error) { return json.Marshal(k) }

func decode(data []byte) (*kept, error) {
	var k kept
	if err := json.Unmarshal(data, &k); err != nil {
		return nil, fmt.Errorf("padlockhttp: a kept answer cannot be read: %w", err)
	}
	if k.Version != keptVersion {
		return nil, fmt.Errorf("padlockhttp: a kept answer has version %d, this program reads version %d", k.Version, keptVersion)
	}
	return &k, nil
}

// load returns the kept answer, or nil.
func load(ctx context.Context, results Results, name string) (*kept, error) {
	blob, err := results.Get(ctx, name)
	if errors.Is(err, sessionstore.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("padlockhttp: looking for a kept answer: %w", err)
	}
	return decode(blob.Data)
}

// replay sends the kept answer once more.
func (k *kept) replay(w http.ResponseWriter) {
	if k.Gone {
		problem{Status: http.StatusGone, Title: "The answer is not kept",
			Detail: "The request with this Idempotency-Key was carried out. Its answer was too large to keep, or it ended early."}.write(w)
		return
	}
	h := w.Header()
	outer := h[cookies]
	maps.Copy(h, k.Header)
	if len(k.Header[cookies]) > 0 {
		h[cookies] = slices.Concat(outer, k.Header[cookies])
	}
	h.Set("Idempotent-Replayed", "true")
	w.WriteHeader(k.Status)
	_, _ = w.Write(k.Body)
}
