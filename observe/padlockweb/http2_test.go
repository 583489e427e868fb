package padlockweb_test

import (
	"bufio"
	"context"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/observe/padlockweb"
	"github.com/padlock-go/padlock/observe/sampler"
	"github.com/padlock-go/padlock/stores/memstore"
)

// A stream over HTTP/2 goes on while nothing changes for minutes, whatever http.Server.WriteTimeout
// says. HTTP/2 ends a stream when its deadline passes, even if nothing is being written.
func TestQuietStreamOverHTTP2(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := padlock.New(memstore.New())
		defer l.Close(t.Context())
		s := sampler.New(l)
		s.Sample(t.Context())
		w := padlockweb.Handler(l, padlockweb.Sampler(s), padlockweb.ReadWithoutToken())
		var protocols http.Protocols
		protocols.SetUnencryptedHTTP2(true)
		at := make(pipes)
		server := &http.Server{Handler: w, ReadTimeout: 10 * time.Second, WriteTimeout: 30 * time.Second, Protocols: &protocols}
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = server.Serve(at) // it ends with Close
		}()
		client := &http.Transport{Protocols: &protocols, DialContext: func(context.Context, string, string) (net.Conn, error) { return at.dial(), nil }}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost/events", nil)
		if err != nil {
			t.Fatal(err)
		}
		reply, err := client.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		if reply.ProtoMajor != 2 {
			t.Fatalf("the protocol is %s", reply.Proto)
		}
		<-time.After(5 * time.Minute)
		k, err := l.TryAcquire(t.Context(), "after-five-minutes")
		if err != nil {
			t.Fatal(err)
		}
		s.Sample(t.Context())
		synctest.Wait()
		w.Close()
		found := false
		for lines := bufio.NewScanner(reply.Body); lines.Scan(); {
			found = found || strings.Contains(lines.Text(), "after-five-minutes")
		}
		if !found {
			t.Error("the stream has ended, or lacks the event")
		}
		reply.Body.Close()
		k.Release()
		client.CloseIdleConnections()
		close(at)
		server.Close()
		<-done
	})
}
