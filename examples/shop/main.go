// Command shop is a small web shop on packages session and stampede:
//
//	go run ./examples/shop
//
// It needs nothing beside: locks, sessions and values are kept in memory. Open
// it in two tabs, and add things in both at once.
//
//   - The cart is counted in the session, without a lock (mode Delta): what two
//     tabs add at once is all there.
//   - The order is placed under the session's lock (mode Exclusive): a second
//     click finds an empty cart.
//   - The catalogue comes from a supplier who takes 400 ms. It is asked for by
//     one request, however many visitors come at once, and while it is renewed
//     the old one is shown.
//   - Whoever logs out stays logged out.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/memstore"
	"github.com/padlock-go/padlock/session"
	"github.com/padlock-go/padlock/stampede"
)

func main() {
	addr := flag.String("addr", "127.0.0.1:8080", "where to listen; port 0 takes any")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := serve(ctx, *addr); err != nil {
		log.Fatal(err)
	}
}

// serve runs the shop until ctx ends.
func serve(ctx context.Context, addr string) error {
	locker := padlock.New(memstore.New())
	defer locker.Close(context.Background())
	s, err := newShop(locker)
	if err != nil {
		return err
	}
	defer s.cache.Close(context.Background())
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	fmt.Printf("The shop is open: http://%s\n", listener.Addr())
	server := &http.Server{Handler: s.handler(), ReadTimeout: 10 * time.Second, WriteTimeout: 30 * time.Second}
	context.AfterFunc(ctx, func() { server.Close() })
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// newShop is where another store goes: redisstore and redissession, say, for
// several servers.
func newShop(locker *padlock.Locker) (*shop, error) {
	sessions, err := session.New(session.NewMemory(), session.WithLocker(locker),
		session.WithCookie(session.Cookie{Insecure: true})) // plain HTTP is for examples
	if err != nil {
		return nil, err
	}
	return &shop{sessions: sessions, cache: stampede.New(locker, stampede.NewMemory(100)), supplier: supplier{delay: 400 * time.Millisecond}}, nil
}
