package natsstore_test

import (
	"bytes"
	"context"
	"flag"
	"testing"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/drivertest"
	"github.com/padlock-go/padlock/internal/server"
)

var (
	clock   = flag.String("clock", "", "server: TestContract judges leases by the clock of the server")
	cluster = flag.Bool("cluster", false, "TestContract uses three servers, which all keep the bucket")
)

// The store passes the suite on a server.
func TestContract(t *testing.T) {
	t.Parallel()
	rawURL := ""
	if *cluster {
		_, rawURL = startCluster(t)
	} else {
		_, rawURL = start(t, server.NATSOptions{})
	}
	if *clock == "server" {
		rawURL += map[bool]string{true: "&", false: "?"}[*cluster] + "clock=server&skew=0s"
	}
	drivertest.Run(t, drivertest.Harness{
		Open:     func(ctx context.Context) (driver.Store, error) { return openURL(ctx, t, rawURL) },
		Slow:     true,
		Parallel: 64,
	})
}

// aPut reports whether a client sends a Put.
func aPut(request []byte) bool { return bytes.Contains(request, []byte("HPUB $KV.")) }

// The store passes the cases of the suite in which something breaks. A server that lost its data
// has no bucket: padlock schema makes it anew.
func TestFaults(t *testing.T) {
	t.Parallel()
	srv, rawURL := start(t, server.NATSOptions{})
	links := server.NewProxies[driver.Store](t, srv.Addr())
	drivertest.Run(t, drivertest.Harness{
		Open: func(ctx context.Context) (driver.Store, error) {
			return links.Open(func(addr string) (driver.Store, error) { return openURL(ctx, t, "nats://"+addr+"/locks/shop") })
		},
		Slow:          true,
		Alone:         true, // TestContract runs the other cases
		CutConnection: links.Cut,
		LoseReply:     links.LoseReply(aPut),
		Pause:         srv.Freeze,
		Restart: func(keepData bool) error {
			if err := srv.Crash(keepData); err != nil || keepData {
				return err
			}
			makeBucket(t, rawURL)
			return nil
		},
	})
}
