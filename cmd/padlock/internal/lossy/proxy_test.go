package lossy

import (
	"bufio"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"
)

// echo is a server that answers each line with itself and counts them.
func echo(t *testing.T) (addr string, lines *atomic.Int32) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	lines = new(atomic.Int32)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				for r := bufio.NewReader(conn); ; {
					line, err := r.ReadString('\n')
					if err != nil {
						return
					}
					lines.Add(1)
					io.WriteString(conn, line)
				}
			}()
		}
	}()
	return l.Addr().String(), lines
}

func through(t *testing.T, p *Proxy) (net.Conn, *bufio.Reader) {
	t.Helper()
	conn, err := net.Dial("tcp", p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	return conn, bufio.NewReader(conn)
}

func start(t *testing.T, to string) *Proxy {
	t.Helper()
	p, err := Listen(to)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

// exchange sends a line and expects it back.
func exchange(t *testing.T, conn net.Conn, r *bufio.Reader) {
	t.Helper()
	io.WriteString(conn, "hello\n")
	if line, err := r.ReadString('\n'); line != "hello\n" {
		t.Fatalf("it came back as %q, %v", line, err)
	}
}

func TestLosses(t *testing.T) {
	t.Parallel()
	for loss, arrives := range map[Loss]bool{Replies: true, Everything: false} {
		addr, lines := echo(t)
		p := start(t, addr)
		conn, r := through(t, p)
		exchange(t, conn, r)
		p.Lose(loss)
		io.WriteString(conn, "lost\n")
		await(t, p, func() bool { return lines.Load() == 2 || !arrives })
		p.Lose(Nothing)
		if line, err := r.ReadString('\n'); err == nil {
			t.Errorf("loss %d: %q came although something before it was lost", loss, line)
		}
		if got := lines.Load() == 2; got != arrives {
			t.Errorf("loss %d: the request arrived: %v", loss, got)
		}
		conn, r = through(t, p)
		exchange(t, conn, r) // a new connection works
	}
}

// await waits until the proxy has lost data and the given condition is true.
func await(t *testing.T, p *Proxy, more func() bool) {
	t.Helper()
	lost := func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		for c := range p.pairs {
			if c.lost {
				return true
			}
		}
		return false
	}
	for end := time.Now().Add(20 * time.Second); !lost() || !more(); <-time.After(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("nothing was lost")
		}
	}
}

func TestReset(t *testing.T) {
	t.Parallel()
	addr, _ := echo(t)
	p := start(t, addr)
	conn, r := through(t, p)
	exchange(t, conn, r)
	p.Reset()
	if _, err := r.ReadByte(); err == nil {
		t.Error("the connection goes on")
	}
	conn, r = through(t, p)
	exchange(t, conn, r)
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	if _, err := r.ReadByte(); err == nil {
		t.Error("the connection goes on after Close")
	}
	if _, err := net.Dial("tcp", p.Addr()); err == nil {
		t.Error("it listens after Close")
	}
}

func TestNobodyThere(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	_, r := through(t, start(t, l.Addr().String()))
	if _, err := r.ReadByte(); err == nil {
		t.Error("a connection to nobody")
	}
}
