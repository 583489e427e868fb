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
// with kill -9. The other server still has everything. (examples/shutdown shows how a server that
// has time ends.)
//
//   - The cart is a counter in the session and needs no lock (mode Delta). If two tabs add things
//     at once, nothing is lost.
//   - The order is placed under the session's lock (mode Exclusive): a second click finds an empty
//     cart.
//   - The catalogue comes from a supplier who takes 400 ms. However many visitors come at once,
//     only one request asks the supplier. While the catalogue is renewed, visitors see the old one.
//   - A visitor who logs out stays logged out, in all tabs. Another button logs out everywhere.
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
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/stores/memstore"
	"github.com/padlock-go/padlock/stores/redisstore"
	"github.com/padlock-go/padlock/web/session/redissession"
	"github.com/padlock-go/padlock/web/session/sessionstore"
	"github.com/padlock-go/padlock/web/stampede"
)

func main() {
	addr := flag.String("addr", "127.0.0.1:8080", "where to listen; port 0 takes any")
	redis := flag.String("redis", "", "the `URL` of a Redis that several servers share; without it all is kept in memory")
	flag.Parse()
	log.Fatal(serve(*addr, *redis))
}

// serve runs the shop until an error ends it.
func serve(addr, redis string) error {
	b := &backing{memstore.New(), sessionstore.NewMemory(), stampede.NewMemory(stampede.MaxValues(100))}
	if redis != "" {
		var err error
		if b, err = openRedis(redis); err != nil {
			return err
		}
	}
	s, err := newShop(padlock.New(b.locks), b.sessions, b.values)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	s.server = listener.Addr().String()
	fmt.Printf("The shop is open: http://%s\n", s.server)
	server := &http.Server{Handler: s.handler(), ReadTimeout: 10 * time.Second, WriteTimeout: 30 * time.Second}
	return server.Serve(listener)
}

// backing is the storage for locks, sessions and values.
type backing struct {
	locks    padlock.Store
	sessions sessionstore.Store
	values   stampede.Values
}

// openRedis opens the Redis at the URL.
func openRedis(redis string) (*backing, error) {
	u, err := url.Parse(redis)
	if err != nil {
		return nil, errors.New("-redis is not a URL") // do not return err, because its text might contain a password
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	locks, err := redisstore.FromURL(ctx, u, redissession.Locks()...)
	if err != nil {
		return nil, err
	}
	data, err := redissession.FromURL(ctx, u)
	if err != nil {
		return nil, err
	}
	return &backing{locks, data.Sessions(), data.Values()}, nil
}
