package server

import (
	"crypto/tls"
	"errors"
	"net"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"
)

// say opens a new connection and sends one command on it.
func say(t *testing.T, s *Server, args ...string) string {
	t.Helper()
	reply, err := askServer(connect(t, "tcp", s.Addr()), args...)
	if err != nil {
		t.Fatal(err)
	}
	return reply
}

func connect(t *testing.T, network, addr string) net.Conn {
	t.Helper()
	conn, err := net.Dial(network, addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	return conn
}

func want(t *testing.T, got, expected string) {
	t.Helper()
	if got != expected {
		t.Errorf("got %q, want %q", got, expected)
	}
}

func TestRedisKillAndRestart(t *testing.T) {
	s := Redis(t, RedisOptions{Persist: true})
	addr := s.Addr()
	want(t, say(t, s, "SET", "k", "v"), "+OK")
	s.Kill()
	if conn, err := net.Dial("tcp", addr); err == nil {
		_ = conn.Close()
		t.Error("a killed server accepts a connection")
	}
	s.Restart(true)
	want(t, s.Addr(), addr)
	want(t, say(t, s, "EXISTS", "k"), ":1")
	s.Restart(false)
	want(t, s.Addr(), addr)
	want(t, say(t, s, "EXISTS", "k"), ":0")
}

func TestRedisKeepsNothingUnlessTold(t *testing.T) {
	s := Redis(t, RedisOptions{})
	want(t, say(t, s, "SET", "k", "v"), "+OK")
	s.Restart(true)
	want(t, say(t, s, "EXISTS", "k"), ":0")
}

func TestRedisPause(t *testing.T) {
	s := Redis(t, RedisOptions{})
	conn := connect(t, "tcp", s.Addr())
	want(t, say(t, s, "PING"), "+PONG")
	s.Pause()
	if err := conn.SetDeadline(time.Now().Add(50 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if reply, err := askServer(conn, "PING"); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a paused server answers %q, %v", reply, err)
	}
	s.Resume()
	want(t, say(t, s, "PING"), "+PONG")
	s.Pause()
	s.Restart(true) // Restart has to resume it first
	want(t, say(t, s, "PING"), "+PONG")
	s.Pause() // the clean-up has to resume it too
}

func TestRedisStop(t *testing.T) {
	s := Redis(t, RedisOptions{})
	s.Stop()
	s.Stop()
	if _, err := net.Dial("tcp", s.Addr()); err == nil {
		t.Error("a stopped server accepts a connection")
	}
}

func TestRedisPassword(t *testing.T) {
	s := Redis(t, RedisOptions{Password: "p:ss w"})
	u, err := url.Parse(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	password, _ := u.User.Password()
	want(t, password, "p:ss w")
	want(t, say(t, s, "GET", "k"), "-NOAUTH Authentication required.")
	want(t, say(t, s, "AUTH", password), "+OK")
}

func TestRedisACL(t *testing.T) {
	s := Redis(t, RedisOptions{ACL: "user default off\nuser ann on >secret ~a:* +@all\n"})
	conn := connect(t, "tcp", s.Addr())
	for _, step := range [][2]string{{"AUTH ann secret", "+OK"}, {"GET a:1", "$-1"}} {
		reply, err := askServer(conn, strings.Fields(step[0])...)
		if err != nil {
			t.Fatal(err)
		}
		want(t, reply, step[1])
	}
	s.Restart(false) // the ACL file is written anew
	want(t, say(t, s, "AUTH", "ann", "secret"), "+OK")
}

func TestRedisSocket(t *testing.T) {
	s := Redis(t, RedisOptions{Socket: true})
	reply, err := askServer(connect(t, "unix", RedisSocket(s)), "PING")
	if err != nil {
		t.Fatal(err)
	}
	want(t, reply, "+PONG")
}

func TestRedisCluster(t *testing.T) {
	s := Redis(t, RedisOptions{Cluster: true, Password: "secret"})
	conn := connect(t, "tcp", s.Addr())
	for _, step := range [][2]string{
		{"AUTH secret", "+OK"},
		{"SET k v", "+OK"},
		{"DEL a b", "-CROSSSLOT Keys in request don't hash to the same slot"},
	} {
		reply, err := askServer(conn, strings.Fields(step[0])...)
		if err != nil {
			t.Fatal(err)
		}
		want(t, reply, step[1])
	}
}

// TestRedisClusterOfThree: each primary serves its own slots, and names the owner of the others.
func TestRedisClusterOfThree(t *testing.T) {
	Thorough(t)
	nodes := RedisCluster(t)
	for i, name := range []string{"b", "c", "a"} { // slots 3300, 7365 and 15495
		for j, n := range nodes {
			reply, err := askServer(connect(t, "tcp", n.Addr()), "SET", name, "v")
			if owner := strings.HasPrefix(reply, "+OK"); err != nil || owner != (i == j) {
				t.Errorf("SET %s at node %d: %q, %v", name, j, reply, err)
			}
			if i != j && !strings.HasSuffix(reply, " "+nodes[i].Addr()) {
				t.Errorf("node %d says that %s is elsewhere: %q, want %s", j, name, reply, nodes[i].Addr())
			}
		}
	}
}

func TestRedisTLS(t *testing.T) {
	certs := NewTLS(t)
	s := Redis(t, RedisOptions{TLS: certs, Password: "secret"})
	want(t, s.URL(), "rediss://:secret@"+s.Addr())
	conn, err := tls.Dial("tcp", s.Addr(), certs.Client())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	reply, err := askServer(conn, "AUTH", "secret")
	if err != nil {
		t.Fatal(err)
	}
	want(t, reply, "+OK")
	if _, err := tls.Dial("tcp", s.Addr(), NewTLS(t).Client()); err == nil {
		t.Error("a client of another authority trusts the server")
	}
}
