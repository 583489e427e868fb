package faults

import (
	"context"
	"errors"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/drivertest"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/open"
	"github.com/padlock-go/padlock/open/all"
	"github.com/padlock-go/padlock/stores/quorum"
)

// The whole suite on a quorum of Redis, PostgreSQL and etcd.
func TestContractOnThreeKinds(t *testing.T) {
	t.Parallel()
	urls := []string{
		"redis://" + server.Redis(t, server.RedisOptions{}).Addr(),
		server.Postgres(t, server.PostgresOptions{Args: []string{"-c", "max_connections=300"}}).URL(),
		"etcd://" + server.Etcd(t, server.EtcdOptions{}).Addr(),
	}
	open := func(ctx context.Context) ([]driver.Store, error) { return openAll(ctx, urls) }
	checkMajority(t, drivertest.Harness{Slow: true, Parallel: 16}, open)
}

// checkMajority runs the suite on a majority of the members that open returns.
func checkMajority(t *testing.T, h drivertest.Harness, open func(context.Context) ([]driver.Store, error)) {
	t.Helper()
	h.Open = func(ctx context.Context) (driver.Store, error) {
		stores, err := open(ctx)
		if err != nil {
			return nil, err
		}
		q, err := quorum.New(quorum.Majority, stores, quorum.MemberTimeout(time.Second))
		return paced{q}, err
	}
	drivertest.Run(t, h)
}

// paced makes a refused caller wait a little, as package padlock does. The suite asks again at once,
// and PostgreSQL cannot keep up with so many tries for one name.
type paced struct{ driver.Store }

func (p paced) Unwrap() driver.Store { return p.Store }

func (p paced) Acquire(ctx context.Context, r driver.Request) (driver.Grant, error) {
	g, err := p.Store.Acquire(ctx, r)
	if errors.Is(err, driver.ErrHeld) {
		<-time.After(10 * time.Millisecond)
	}
	return g, err
}

func openAll(ctx context.Context, urls []string, opts ...open.Option) (stores []driver.Store, err error) {
	for _, u := range urls {
		s, err := all.Store(ctx, u, opts...)
		if err != nil {
			for _, s := range stores {
				s.Close() // an error of Close is ignored: the error from opening is returned
			}
			return nil, err
		}
		stores = append(stores, s)
	}
	return stores, nil
}

// TestFencesOfMembers opens every kind of store without its server. A store that promises durable
// fences can be a member of a quorum with fences. Any other store is refused there, and can be a
// member if fences are off.
func TestFencesOfMembers(t *testing.T) {
	t.Parallel()
	const nowhere = "127.0.0.1:1"
	urls := map[string]string{
		"file": "file://" + t.TempDir(), "sqlite": "sqlite://" + filepath.Join(t.TempDir(), "locks.db"), "memory": "memory:", "semaphore": "semaphore:?hash=xxh128",
		"s3":         "s3://bucket/prefix?region=here&endpoint=http://" + nowhere,
		"gs":         "gs://bucket/prefix?endpoint=http://" + nowhere,
		"dynamodb":   "dynamodb://table/prefix?region=here&endpoint=http://" + nowhere,
		"kubernetes": "kubernetes://shop?endpoint=http://" + nowhere,
	}
	for _, s := range open.Known(open.Schemes(all.Schemes()...)) {
		raw, named := urls[s.Names[0]]
		if u, err := url.Parse(s.Example); !named && err == nil {
			u.Host = nowhere
			raw = u.String()
		}
		if s.Composite {
			continue
		}
		t.Run(s.Names[0], func(t *testing.T) { fenceOf(t, raw) })
	}
}

func fenceOf(t *testing.T, rawURL string) {
	store, err := all.Store(t.Context(), rawURL, open.Lazy())
	if err != nil {
		t.Fatal(err)
	}
	durable := store.Guarantees().Fence == driver.FenceDurable
	if _, raises := driver.As[driver.FenceRaiser](store); durable != raises {
		t.Errorf("durable fences: %v, and it is a FenceRaiser: %v", durable, raises)
	}
	q, err := quorum.New(quorum.All, []driver.Store{store})
	switch {
	case durable && err != nil:
		t.Errorf("refused in a quorum with fences: %v", err)
	case !durable && (!errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), "NoFences")):
		t.Errorf("a quorum with fences has a member without: %v", err)
	case !durable:
		if q, err = quorum.New(quorum.All, []driver.Store{store}, quorum.NoFences()); err != nil {
			t.Errorf("refused in a quorum without fences: %v", err)
		}
	}
	if q != nil {
		store = q
	}
	if err := store.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	t.Logf("%s: durable fences: %v", rawURL, durable)
}
