package server

import (
	"context"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestPostgresKillAndRestart(t *testing.T) {
	Thorough(t)
	s := Postgres(t, PostgresOptions{Args: []string{"-c", "max_connections=20"}})
	before := tree(s.Pid())
	if len(before) < 3 {
		t.Fatalf("%d processes: PostgreSQL's helpers are not seen", len(before))
	}
	s.Kill()
	for _, pid := range before {
		if !dead(pid) {
			t.Errorf("process %d has survived the kill", pid)
		}
	}
	if conn, err := net.Dial("tcp", s.Addr()); err == nil {
		_ = conn.Close()
		t.Error("a killed server accepts a connection")
	}
	s.Restart(true)
	s.Restart(true) // this time the server still runs, so Restart stops it cleanly first
}

// TestPostgresLeavesNothingBehind: neither the end of a test nor a new data directory leaves shared
// memory of the killed server behind.
func TestPostgresLeavesNothingBehind(t *testing.T) {
	Thorough(t)
	var segments []string
	t.Run("server", func(t *testing.T) {
		s := Postgres(t, PostgresOptions{})
		segments = append(segments, segmentOf(t, s))
		s.Kill()
		s.Restart(false)
		segments = append(segments, segmentOf(t, s))
		s.Kill()
	})
	left, err := os.ReadFile("/proc/sysvipc/shm")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(left)) {
		if words := strings.Fields(line); slices.Contains(segments, words[1]) {
			t.Errorf("a segment of shared memory is left: %s", line)
		}
	}
}

func segmentOf(t *testing.T, s *Server) string {
	data, err := os.ReadFile(s.Place().Path("data/postmaster.pid"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Fields(strings.Split(string(data), "\n")[6])[1]
}

func TestPostgresRestartKeepsDataOrNot(t *testing.T) {
	Thorough(t)
	s := Postgres(t, PostgresOptions{})
	mark := s.Place().Path("data/mark")
	if err := os.WriteFile(mark, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s.Restart(true)
	if _, err := os.Stat(mark); err != nil {
		t.Errorf("the data directory was not kept: %v", err)
	}
	s.Kill()
	s.Restart(false)
	if _, err := os.Stat(mark); !os.IsNotExist(err) {
		t.Errorf("the data directory is not new: %v", err)
	}
}

func TestPostgresPause(t *testing.T) {
	s := Postgres(t, PostgresOptions{})
	s.Pause()
	for _, pid := range tree(s.Pid()) {
		if !doesNotRun(pid) {
			t.Errorf("process %d goes on", pid)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", s.Addr())
	if err != nil {
		t.Fatalf("the kernel should accept in the server's name: %v", err)
	}
	_ = conn.Close()
	s.Resume()
	// On a busy machine, a session may take longer than the second of postgresReady.
	Eventually(t, func() error { return postgresReady(t.Context(), s.Place()) })
}
