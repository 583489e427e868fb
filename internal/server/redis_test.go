package server

import (
	"errors"
	"net"
	"os"
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
