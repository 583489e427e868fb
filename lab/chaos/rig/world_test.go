package rig

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/server"
)

// After a swap of roles the address leads to the new primary, which has the data of the old one.
// The old primary is its replica, and the roles can be swapped again.
func TestRolesSwapped(t *testing.T) {
	t.Parallel()
	site := place(t)
	server.Redis(t, server.RedisOptions{}) // skips the test, or fails it in CI, if there is none
	var set *setup
	if err := try(func() { set = redisPair(site) }); err != nil {
		t.Fatal(err)
	}
	front := set.links[0][0].Addr()
	for i, f := range set.faults[len(set.faults)-2:] {
		for range 2 {
			if said := ask(t, front, "INCR swaps", 1); said[0] != ':' {
				t.Fatalf("the address leads to a server that says %q", said)
			}
			before := ask(t, front, "CONFIG GET port", 5)
			once(t, f)
			if role := ask(t, front, "ROLE", 3); role != "master" {
				t.Errorf("after %s, the address leads to a %s", f.Kind, role)
			}
			if after := ask(t, front, "CONFIG GET port", 5); (after != before) != (i == 0) {
				t.Errorf("after %s, the port is %s, before %s", f.Kind, after, before)
			}
		}
	}
	if n := ask(t, front, "INCRBY swaps 0", 1); n != ":4" {
		t.Errorf("%s of 4 writes are left", n)
	}
}

// A backup that is put back undoes the writes since.
func TestBackupRestored(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		o server.RedisOptions
		h hit
	}{"snapshot": {server.RedisOptions{}, snapshotRestored}, "copy": {server.RedisOptions{Persist: true}, backupRestored("appendonlydir")}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			servers := start(t, place(t), 1, c.o)
			f := faultsOf(servers, 0, c.h)[0]
			for want := range 2 {
				ask(t, servers[0].Addr(), "INCR before", 1)
				undo, err := f.Begin(nil, 0)
				if err != nil {
					t.Fatal(err)
				}
				ask(t, servers[0].Addr(), "SET since x", 1)
				if err := undo(); err != nil {
					t.Fatal(err)
				}
				if n, since := ask(t, servers[0].Addr(), "INCRBY before 0", 1), ask(t, servers[0].Addr(), "EXISTS since", 1); n != fmt.Sprint(":", 1+want) || since != ":0" {
					t.Errorf("before: %s, since: %s", n, since)
				}
			}
		})
	}
}

// A copy of an SQLite file that is put back undoes the grants since. If the copy takes the place of
// the file, a store that is open says so once, and then uses the copy.
func TestSQLiteBackup(t *testing.T) {
	t.Parallel()
	for i, kind := range []string{backupKind, fileReplaced} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			url := sqliteURL(dir)
			open := func() driver.Store {
				s, err := Open(t.Context(), url)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { s.Close() })
				return s
			}
			take := func(s driver.Store, token string) driver.Grant {
				g, err := s.Acquire(t.Context(), driver.Request{Name: "since", Token: driver.TokenOf(token), TTL: time.Minute})
				if err != nil {
					t.Fatalf("%s: %v", token, err)
				}
				return g
			}
			old := open()
			f := sqliteFile.backupFaults(url, dir)[i]
			if f.Kind != kind {
				t.Fatalf("got %s, want %s", f.Kind, kind)
			}
			undo, err := f.Begin(nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			first := take(old, "first")
			if err := undo(); err != nil {
				t.Fatal(err)
			}
			next := take(open(), "next")
			if next.Fence <= first.Fence {
				t.Errorf("SAFETY: fence %d after %d", next.Fence, first.Fence)
			}
			st, err := old.(driver.Admin).Inspect(t.Context(), "since")
			if kind == fileReplaced && errors.Is(err, driver.ErrUnavailable) {
				st, err = old.(driver.Admin).Inspect(t.Context(), "since")
			}
			if err != nil || st.Fence != next.Fence {
				t.Errorf("the store that was open sees %+v, %v; want the fence %d", st, err, next.Fence)
			}
		})
	}
}

// While a file exists, each read of a process fails.
func TestReadsFail(t *testing.T) {
	t.Parallel()
	if os.Getenv("PADLOCK_READS_FAIL") == "" {
		if runtime.GOOS != "linux" {
			t.Skip("reads fail on Linux only")
		}
		cmd := exec.Command(os.Args[0], "-test.run=^TestReadsFail$", "-test.timeout=30s") // the filter lasts as long as the process
		cmd.Env = append(os.Environ(), "PADLOCK_READS_FAIL=yes")
		if text, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, text)
		}
		return
	}
	bad := filepath.Join(t.TempDir(), "bad")
	s, err := Open(t.Context(), strings.Join([]string{unreadWord, bad, "file://" + t.TempDir()}, " "))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, want := range []error{nil, driver.ErrUnavailable, nil} {
		undo := func() error { return nil }
		if want != nil {
			undo, _ = readsFail(bad).Begin(nil, 0)
		}
		if err := grantAt(t.Context(), s, "name"); !errors.Is(err, want) {
			t.Errorf("got %v, want %v", err, want)
		}
		if err := undo(); err != nil {
			t.Fatal(err)
		}
	}
}
