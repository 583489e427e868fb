package goredis_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/compat/goredis"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/stores/redisstore"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/auth"
)

// stream gives out a password that changes.
type stream struct {
	password string
	left     atomic.Int32
}

func (s *stream) Subscribe(auth.CredentialsListener) (auth.Credentials, auth.UnsubscribeFunc, error) {
	s.left.Add(1)
	return auth.NewBasicCredentials("app", s.password), func() error { s.left.Add(-1); return nil }, nil
}

// A store that is opened with a client takes its locks where the client works.
func TestOpen(t *testing.T) {
	t.Parallel()
	closed := server.Redis(t, server.RedisOptions{Socket: true, ACL: "user app on >secret ~* &* +@all\nuser default off\n"})
	cert := server.NewTLS(t)
	secure := server.Redis(t, server.RedisOptions{TLS: cert})
	nodes := server.RedisCluster(t)
	var dialled atomic.Int32
	dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
		dialled.Add(1)
		return new(net.Dialer).DialContext(ctx, network, addr)
	}
	last := &stream{password: "secret"}
	for name, client := range map[string]redis.UniversalClient{
		"password": redis.NewClient(&redis.Options{Addr: closed.Addr(), Username: "app", Password: "secret", DB: 3, ClientName: "web", Dialer: dial}),
		"function": redis.NewClient(&redis.Options{Addr: closed.Addr(), DB: 3, CredentialsProvider: func() (string, string) { return "app", "secret" }}),
		"function with a context": redis.NewClient(&redis.Options{Addr: closed.Addr(), DB: 3,
			CredentialsProviderContext: func(context.Context) (string, string, error) { return "app", "secret", nil }}),
		"stream":  redis.NewClient(&redis.Options{Addr: closed.Addr(), DB: 3, StreamingCredentialsProvider: last}),
		"socket":  redis.NewClient(&redis.Options{Addr: server.RedisSocket(closed), Username: "app", Password: "secret"}),
		"TLS":     redis.NewClient(&redis.Options{Addr: secure.Addr(), TLSConfig: cert.Client()}),
		"cluster": redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{nodes[0].Addr()}}),
	} {
		store, err := goredis.Open(t.Context(), client)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		l := padlock.New(store)
		lock, err := l.Acquire(t.Context(), name)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if n, err := client.Exists(t.Context(), name).Result(); err != nil || n != 1 {
			t.Errorf("%s: the client does not see the lock: %d, %v", name, n, err)
		}
		if err := errors.Join(lock.Release(), l.Close(context.Background()), client.Close()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if dialled.Load() < 2 {
		t.Error("the store did not take the dialer of the client")
	}
	if n := last.left.Load(); n != 0 {
		t.Errorf("%d subscriptions are left", n)
	}
}

// Sentinels name the primary.
func TestFailover(t *testing.T) {
	t.Parallel()
	sentinel := server.Sentinel(t, server.Redis(t, server.RedisOptions{}))
	c, err := goredis.FromUniversal(&redis.UniversalOptions{Addrs: []string{sentinel.Addr()}, MasterName: "main"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	store, err := redisstore.Open(ctx, c)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	if _, err := padlock.New(store).Acquire(ctx, "job"); err != nil {
		t.Error(err)
	}
}

// What cannot be taken over is an error that names it.
func TestRefused(t *testing.T) {
	connect := func(context.Context, *redis.Conn) error { return nil }
	slots := func(context.Context) ([]redis.ClusterSlot, error) { return nil, nil }
	from := func(c redis.UniversalClient) error {
		defer c.Close()
		_, err := goredis.FromClient(c)
		return err
	}
	_, replicas := goredis.FromFailover(&redis.FailoverOptions{MasterName: "m", ReplicaOnly: true})
	for want, err := range map[string]error{
		"OnConnect cannot": from(redis.NewClient(&redis.Options{OnConnect: connect})),
		"use FromFailover": from(redis.NewFailoverClient(&redis.FailoverOptions{MasterName: "m", SentinelAddrs: []string{"127.0.0.1:1"}})),
		"*redis.Ring":      from(redis.NewRing(&redis.RingOptions{})),
		"OnConnect and ClusterSlots and NewClient cannot": from(redis.NewClusterClient(&redis.ClusterOptions{
			OnConnect: connect, ClusterSlots: slots, NewClient: func(o *redis.Options) *redis.Client { return redis.NewClient(o) }})),
		"ReplicaOnly cannot": replicas,
	} {
		if !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}
