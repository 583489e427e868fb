package memcachestore_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/stores/memcachestore"
)

// raw is a connection without a store.
type raw struct {
	t    testing.TB
	conn net.Conn
	from *bufio.Reader
}

func dial(t testing.TB, addr string) *raw {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return &raw{t, conn, bufio.NewReader(conn)}
}

func (r *raw) says(want, request string) {
	r.t.Helper()
	if _, err := r.conn.Write([]byte(request + "\r\n")); err != nil {
		r.t.Fatal(err)
	}
	if line, err := r.from.ReadString('\n'); strings.TrimSpace(line) != want {
		r.t.Fatalf("%s: memcached says %q, %v; want %s", request, line, err, want)
	}
}

// While a holder's release or extension is under way, the lock is lost and another process takes
// it. The request of the old holder has an outdated id, so it changes nothing.
func TestStaleID(t *testing.T) {
	t.Parallel()
	for command, call := range map[string]func(*memcachestore.Store, string) error{
		"md ": func(s *memcachestore.Store, name string) error {
			outcome, err := s.Release(context.Background(), name, "first", 0)
			if outcome != driver.OutcomeGone {
				return fmt.Errorf("Release returns %v", outcome)
			}
			return err
		},
		"ms ": func(s *memcachestore.Store, name string) error {
			if _, err := s.Extend(context.Background(), name, "first", time.Hour); !errors.Is(err, driver.ErrLost) {
				return fmt.Errorf("Extend returns %v", err)
			}
			return nil
		},
	} {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			srv := server.Memcached(t)
			p := server.NewProxy(t, srv.Addr())
			slow, other, admin := mustOpen(t, p.Addr()), mustOpen(t, srv.Addr()), dial(t, srv.Addr())
			take(t, slow, request("job", "first"))
			var met bool
			p.LoseReply(func(sent []byte) bool {
				if bytes.HasPrefix(sent, []byte(command)) && !met {
					met = true
					admin.says("OK", "flush_all")
					take(t, other, request("job", "second"))
				}
				return false
			})
			if err := call(slow, "job"); err != nil || !met {
				t.Errorf("%v; the request was seen: %v", err, met)
			}
			g, err := other.Extend(t.Context(), "job", "second", 0)
			if err != nil || g.TTL > 2*time.Minute {
				t.Errorf("the second holder's lease: %v, %v", g.TTL, err)
			}
		})
	}
}

// A full server drops locks. The holders of these locks notice that, and the server's status shows
// it.
func TestEviction(t *testing.T) {
	server.Thorough(t)
	t.Parallel()
	srv := server.Memcached(t, "-m", "2")
	s, filler := mustOpen(t, srv.Addr()), dial(t, srv.Addr())
	job := request("job", "token")
	job.TTL = time.Hour
	take(t, s, job)
	for batch := 0; ; batch++ {
		var b bytes.Buffer
		for i := range 5000 {
			size := 50 + i%250 // memcached makes room among values of about the same size
			fmt.Fprintf(&b, "ms filler-%d-%d %d q T0\r\n%s\r\n", batch, i, size, strings.Repeat("x", size))
		}
		b.WriteString("mn")
		filler.says("MN", b.String())
		if batch%10 != 9 { // memcached keeps a value longer after a read, so reads are rare here
			continue
		}
		_, err := s.Extend(t.Context(), "job", "token", 0)
		if errors.Is(err, driver.ErrLost) {
			break
		}
		if err != nil || batch == 99 {
			t.Fatalf("after %d batches: %v; want ErrLost", batch, err)
		}
	}
	take(t, s, request("job", "another"))
	findings, err := s.Status(t.Context())
	if err != nil || findings[0].Value != "best effort" || findings[0].Advice == "" {
		t.Fatalf("%+v, %v", findings, err)
	}
	for _, f := range findings {
		if f.Name == "evictions" && (f.Value == "0" || f.Advice == "") || f.Value == driver.Unknown {
			t.Errorf("%+v", f)
		}
	}
}

// A full server that may not evict refuses new locks, and drops a lock when its holder extends it.
// The error of that holder does not claim that nothing was changed.
func TestFullWithoutEvictions(t *testing.T) {
	server.Thorough(t)
	t.Parallel()
	srv := server.Memcached(t, "-M", "-m", "2")
	s := mustOpen(t, srv.Addr())
	job := request("job", "token")
	job.TTL = time.Hour
	take(t, s, job)
	for _, label := range []string{"token", "a token of more bytes"} { // of about the same size
		var err error
		for i := 0; err == nil && i < 100_000; i++ {
			r := request(fmt.Sprint("filler ", label, i), "token")
			r.TTL, r.Holder.Label = time.Hour, label
			if _, err = s.Acquire(t.Context(), r); errors.Is(err, driver.ErrUncertain) {
				err = nil // on a busy machine a server may not answer in time
			}
		}
		if !errors.Is(err, driver.ErrUnavailable) {
			t.Fatalf("a new lock on a full server: %v; want ErrUnavailable", err)
		}
	}
	if _, err := s.Extend(t.Context(), "job", "token", time.Hour); !errors.Is(err, driver.ErrUncertain) {
		t.Errorf("Extend on a full server: %v; want ErrUncertain", err)
	}
}

// A lease never ends early, no matter in which part of a second it begins.
func TestLeasesAreNotCutShort(t *testing.T) {
	server.Thorough(t)
	t.Parallel()
	srv := server.Memcached(t)
	s := mustOpen(t, srv.Addr())
	began := map[string]time.Time{}
	every := time.NewTicker(20 * time.Millisecond)
	defer every.Stop()
	for i := range 50 {
		r := request(fmt.Sprint("job ", i), "token")
		r.TTL = 2 * time.Second
		<-every.C
		began[r.Name] = time.Now()
		take(t, s, r)
		if time.Since(began[r.Name]) > 500*time.Millisecond {
			delete(began, r.Name) // the server may have stood still, and then the lease may end early
		}
	}
	if len(began) == 0 {
		t.Error("no request was answered within half a second")
	}
	for len(began) > 0 {
		<-every.C
		for name, at := range began {
			state, err := s.Inspect(t.Context(), name)
			if err != nil {
				t.Fatal(err)
			}
			if len(state.Holds) > 0 {
				continue
			}
			delete(began, name)
			if lived := time.Since(at); lived < 2*time.Second-10*time.Millisecond {
				t.Errorf("a lease of 2 s ended after %v", lived)
			}
		}
	}
}

// A restarted server has no locks. The client connects again by itself.
func TestRestart(t *testing.T) {
	t.Parallel()
	srv := server.Memcached(t)
	s := mustOpen(t, srv.Addr())
	take(t, s, request("job", "token"))
	srv.Kill()
	if _, err := s.Extend(t.Context(), "job", "token", 0); !errors.Is(err, driver.ErrUnavailable) {
		t.Errorf("Extend while the server is down: %v", err)
	}
	srv.Restart(true)
	if _, err := s.Extend(t.Context(), "job", "token", time.Minute); !errors.Is(err, driver.ErrLost) {
		t.Errorf("Extend after the restart: %v; want ErrLost", err)
	}
	take(t, s, request("job", "another"))
}

// The server has a login, and the passwords are in a file that changes.
func TestLogin(t *testing.T) {
	t.Parallel()
	users, file := filepath.Join(t.TempDir(), "users"), filepath.Join(t.TempDir(), "password")
	write := func(path, text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(users, "app:old-secret\n")
	srv := server.Memcached(t, "-Y", users)
	open := func(userinfo, query string) error {
		s, err := memcachestore.FromURL(t.Context(), parse(t, "memcached://"+userinfo+srv.Addr()+query))
		if err != nil {
			return err
		}
		defer s.Close()
		take(t, s, request("job", "token"))
		release(t, s, request("job", "token"), driver.OutcomeReleased)
		return nil
	}
	write(file, "old-secret\n")
	for _, with := range [][2]string{{"app:old-secret@", ""}, {"app@", "?password-file=" + file}} {
		if err := open(with[0], with[1]); err != nil {
			t.Errorf("%v: %v", with, err)
		}
	}
	for _, userinfo := range []string{"app:wrong-secret@", ""} {
		err := open(userinfo, "")
		if !errors.Is(err, driver.ErrUnavailable) || strings.Contains(err.Error(), "secret") {
			t.Errorf("login as %q: %v", userinfo, err)
		}
	}
}

// terminate listens for TLS and passes everything on to a server without TLS.
func terminate(t *testing.T, keys *server.TLS, to string) string {
	t.Helper()
	pair, err := tls.X509KeyPair(keys.Cert, keys.Key)
	if err != nil {
		t.Fatal(err)
	}
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{pair}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			srv, err := net.Dial("tcp", to)
			if err != nil {
				client.Close()
				continue
			}
			go func() { io.Copy(srv, client); srv.Close() }()
			go func() { io.Copy(client, srv); client.Close() }()
		}
	}()
	return l.Addr().String()
}

func TestTLS(t *testing.T) {
	t.Parallel()
	keys, dir := server.NewTLS(t), t.TempDir()
	for name, text := range map[string][]byte{"ca": keys.CA, "cert": keys.Cert, "key": keys.Key} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	addr := terminate(t, keys, server.Memcached(t).Addr())
	s, err := memcachestore.FromURL(t.Context(), parse(t, "memcached://"+addr+"?tls=yes&ca="+filepath.Join(dir, "ca")))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	take(t, s, request("job", "token"))
	if _, err := memcachestore.FromURL(t.Context(), parse(t, "memcached://"+addr+"?tls=yes")); !errors.Is(err, driver.ErrUnavailable) {
		t.Errorf("a certificate of an unknown authority: %v", err)
	}
}

// All callers share a connection. A caller whose context ends while its request is written must not
// end the requests of others.
func TestLateCallersDisturbNobody(t *testing.T) {
	server.Thorough(t)
	t.Parallel()
	s := mustOpen(t, server.Memcached(t).Addr())
	stop := make(chan struct{})
	var late sync.WaitGroup
	for i := range 8 {
		late.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				ctx, cancel := context.WithTimeout(context.Background(), time.Duration(20+n%200)*time.Microsecond)
				s.Acquire(ctx, request(fmt.Sprint("late", i, ".", n), "token"))
				cancel()
			}
		})
	}
	for i := range 500 {
		if _, err := s.Acquire(t.Context(), request(fmt.Sprint("calm", i), "token")); err != nil {
			t.Errorf("a calm caller gets %v", err)
			break
		}
	}
	close(stop)
	late.Wait()
}
