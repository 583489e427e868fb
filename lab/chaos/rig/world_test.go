package rig

import (
	"fmt"
	"testing"

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
