//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/lab/bench/measure"
)

// patience is how long a crowd may take.
const patience = 5 * time.Minute

// crowd makes n clients wait for one name at one "padlock serve --api", each with a connection of
// its own. Then the holder releases the name, and each client takes and releases it once.
func crowd(command func() (string, error), storeURL string, n int) (f measure.Figures, err error) {
	binary, err := command()
	if err != nil {
		return nil, err
	}
	s := &padlock{client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1 << 14}}}
	defer s.client.CloseIdleConnections()
	var h server.Host
	defer h.End()
	if err := h.Try(func(t testing.TB) { s.Server = server.Padlock(t, binary, storeURL) }); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	name := fmt.Sprintf("crowd %d", time.Now().UnixNano())
	if _, err := s.ask(ctx, "acquire", name, 0, 0); err != nil {
		return nil, err
	}
	before, err := s.memory()
	if err != nil {
		return nil, err
	}
	c := &waiting{padlock: s, ctx: ctx, name: name}
	for i := range n {
		c.all.Go(func() { c.wait(i + 1) })
	}
	if err := c.awaitRequests(int64(n)); err != nil {
		cancel()
		c.all.Wait()
		return nil, errors.Join(err, c.err)
	}
	full, err := s.memory()
	if err != nil {
		return nil, err
	}
	begun := time.Now()
	if _, err := s.ask(ctx, "release", name, 0, 0); err != nil {
		return nil, err
	}
	c.all.Wait()
	if c.err != nil || len(c.at) != n {
		return nil, fmt.Errorf("%d of %d clients had the lock: %w", len(c.at), n, c.err)
	}
	after, err := s.memory()
	took, longest := drain(begun, c.at)
	return measure.Figures{
		"kB a waiter": (full - before) / float64(n), "kB a waiter left": (after - before) / float64(n),
		"drain s": took.Seconds(), "hand-overs/s": float64(n) / took.Seconds(), "longest ms": float64(longest.Microseconds()) / 1e3,
	}, err
}

// drain returns how long it took until all clients had the lock, and the longest time in which no
// client got it. The times come in any order.
func drain(begun time.Time, at []time.Time) (took, longest time.Duration) {
	slices.SortFunc(at, time.Time.Compare)
	last := begun
	for _, t := range at {
		longest = max(longest, t.Sub(last))
		last = t
	}
	return last.Sub(begun), longest
}

// waiting is the crowd.
type waiting struct {
	*padlock
	ctx  context.Context
	name string
	all  sync.WaitGroup
	sent atomic.Int64 // how many clients have sent a request

	mu  sync.Mutex
	at  []time.Time // when the clients got the lock
	err error
}

// wait is one client.
func (c *waiting) wait(i int) {
	var first sync.Once
	ctx := httptrace.WithClientTrace(c.ctx, &httptrace.ClientTrace{WroteRequest: func(w httptrace.WroteRequestInfo) {
		if w.Err == nil {
			first.Do(func() { c.sent.Add(1) })
		}
	}})
	status, err := http.StatusAccepted, error(nil)
	for status == http.StatusAccepted && err == nil {
		status, err = c.ask(ctx, "acquire", c.name, i, 25*time.Second)
	}
	got := time.Now()
	if err == nil {
		_, err = c.ask(c.ctx, "release", c.name, i, 0)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = append(c.at, got)
	c.err = errors.Join(c.err, err)
}

// awaitRequests waits until n clients have sent a request, and then a second more, in which the
// requests arrive.
func (c *waiting) awaitRequests(n int64) error {
	for {
		all, pause := c.sent.Load() >= n, 50*time.Millisecond
		if all {
			pause = time.Second
		}
		select {
		case <-time.After(pause):
		case <-c.ctx.Done():
			return c.ctx.Err()
		}
		if all {
			return nil
		}
	}
}

// A padlock is a process of "padlock serve --api", and a client.
type padlock struct {
	*server.Server
	client *http.Client
}

// ask sends a request of client i. Its result is the status, which is 200 or 202.
func (s *padlock) ask(ctx context.Context, path, name string, i int, wait time.Duration) (int, error) {
	body := fmt.Sprintf(`{"name":%q,"token":"bench-client-%010d"}`, name, i)
	if path == "acquire" {
		body = fmt.Sprintf(`%s,"ttl_ms":50000,"wait_ms":%d}`, strings.TrimSuffix(body, "}"), wait.Milliseconds())
	}
	status, text, err := post(ctx, s.client, s.URL()+"/v1/"+path, body)
	if err == nil && status != http.StatusOK && status != http.StatusAccepted {
		err = fmt.Errorf("%s: status %d: %s", path, status, text)
	}
	return status, err
}

// memory returns the memory of the process in kB.
func (s *padlock) memory() (float64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.Pid()))
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			return strconv.ParseFloat(strings.Fields(value)[0], 64)
		}
	}
	return 0, errors.Join(err, errors.New("the process shows no memory"))
}

func post(ctx context.Context, client *http.Client, url, body string) (status int, text []byte, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader([]byte(body)))
	if err != nil {
		return 0, nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	reply, err := client.Do(r)
	if err != nil {
		return 0, nil, err
	}
	defer reply.Body.Close()
	text, err = io.ReadAll(reply.Body)
	return reply.StatusCode, text, err
}
