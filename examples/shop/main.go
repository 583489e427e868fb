// Command shop is a small web shop that shows how to use packages session and stampede:
//
//	go run ./examples/shop
//
// It needs nothing else: locks, sessions and values are kept in memory. Open the shop in two tabs,
// and add things in both at once.
//
// With Redis, several servers can run the same shop:
//
//	go run ./examples/shop -redis redis://127.0.0.1:6379 -addr 127.0.0.1:8080
//	go run ./examples/shop -redis redis://127.0.0.1:6379 -addr 127.0.0.1:8081
//
// Open each of the two servers in a browser tab, and add things in both tabs. Then end one server
// with kill -9. The other server still has everything.
//
//   - The cart is a counter in the session and needs no lock (mode Delta). If two tabs add things
//     at once, nothing is lost. A second button writes the cart as most shops do (mode
//     LastWriteWins), and shows how much that loses.
//   - The order is placed under the session's lock (mode Exclusive): a second click finds an empty
//     cart. The order is charged at the prices that were shown, and is complete once the session is
//     saved.
//   - The catalogue comes from a supplier who takes 400 ms. However many visitors come at once,
//     only one request asks the supplier. While the catalogue is renewed, visitors see the old one.
//   - A visitor who logs out stays logged out, in all tabs. Another button logs out everywhere.
//   - While Redis is stopped, visitors can still look at the shop. They have their carts again as
//     soon as it is back, if it has kept them.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/session"
	"github.com/padlock-go/padlock/session/redissession"
	"github.com/padlock-go/padlock/session/sessionstore"
	"github.com/padlock-go/padlock/stampede"
	"github.com/padlock-go/padlock/stores/memstore"
	"github.com/padlock-go/padlock/stores/redisstore"
)

func main() {
	addr := flag.String("addr", "127.0.0.1:8080", "where to listen; port 0 takes any")
	redis := flag.String("redis", "", "the `URL` of a Redis that several servers share; without it all is kept in memory")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := serve(ctx, *addr, *redis); err != nil {
		log.Fatal(err)
	}
}

// patience is how long the shop waits at its shutdown for requests that are still running.
const patience = 10 * time.Second

// serve runs the shop until ctx ends.
func serve(ctx context.Context, addr, redis string) (err error) {
	b, err := openBacking(ctx, redis)
	if err != nil {
		return err
	}
	locker := padlock.New(b.locks)
	s, err := newShop(locker, b.sessions, b.values)
	if err != nil {
		return errors.Join(err, locker.Close(context.Background()))
	}
	defer func() { err = errors.Join(err, s.closeAll(locker, b)) }()
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	s.server = listener.Addr().String()
	fmt.Printf("The shop is open: http://%s\n", listener.Addr())
	server := &http.Server{Handler: s.handler(), ReadTimeout: 10 * time.Second, WriteTimeout: 30 * time.Second}
	stopped := make(chan error, 1)
	context.AfterFunc(ctx, func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		stopped <- server.Shutdown(ctx) // requests that are still running can save their sessions
	})
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return <-stopped // Serve returns before the shutdown is done, so wait for the shutdown
}

// closeAll closes everything that requests use: first the cache of the catalogue, which uses the
// locks, then the locks, which use the connections, and at last the connections.
func (s *shop) closeAll(locker *padlock.Locker, b *backing) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	err := errors.Join(s.catalogues.Close(ctx), locker.Close(ctx))
	b.close()
	return err
}

// backing is the storage for locks, sessions and values.
type backing struct {
	locks    padlock.Store
	sessions sessionstore.Store
	values   stampede.Values
	close    func()
}

// openBacking opens the Redis at the URL. Without a URL it uses memory.
func openBacking(ctx context.Context, redis string) (*backing, error) {
	if redis == "" {
		return &backing{memstore.New(), sessionstore.NewMemory(), stampede.NewMemory(stampede.MaxValues(100)), func() {}}, nil
	}
	u, err := url.Parse(redis)
	if err != nil {
		return nil, errors.New("-redis is not a URL") // do not return err, because its text might contain a password
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	locks, err := redisstore.FromURL(ctx, u, redissession.Locks()...)
	if err != nil {
		return nil, err
	}
	data, err := redissession.FromURL(ctx, u)
	if err != nil {
		locks.Close()
		return nil, err
	}
	return &backing{locks, data.Sessions(), data.Values(), func() { _ = data.Close() }}, nil
}

func newShop(locker *padlock.Locker, store sessionstore.Store, values stampede.Values) (*shop, error) {
	sessions, err := session.New(store, session.Locker(locker),
		session.Cookie{Insecure: true}) // the example uses plain HTTP
	if err != nil {
		return nil, err
	}
	s := &shop{sessions: sessions, supplier: supplier{delay: 400 * time.Millisecond}}
	s.catalogues, err = newCatalogues(locker, values, &s.supplier)
	return s, err
}
