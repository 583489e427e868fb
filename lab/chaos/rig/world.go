package rig

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"time"

	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/lab/soak"
)

// This file has the faults of a well-run server: its administrators swap roles, change passwords,
// forbid writes for a while or put a backup back. After such a fault, a client must not need a
// restart (I13).

// A pair is two servers behind one address, as behind a Service of Kubernetes or HAProxy. The
// connections of a client stay open when the address leads elsewhere.
type pair struct {
	primary, replica *server.Server
	links            [][]*server.Proxy
	// swap makes the replica the primary, and the primary its replica. No write is lost. Both
	// servers go on.
	swap func(primary, replica *server.Server)
}

// lead makes the address lead to another server.
func (p *pair) lead(to *server.Server) {
	for _, worker := range p.links {
		worker[0].Lead(to.Addr())
	}
}

// rolesSwapped is a planned failover. The address follows a moment later.
func (p *pair) rolesSwapped() soak.Fault {
	return soak.Fault{Kind: "roles swapped", On: soak.Targets(serverTarget, 1), Last: time.Second, Grace: 6 * time.Second, Weight: 6, Begin: begin(func(*rand.Rand, int) func() {
		p.swap(p.primary, p.replica)
		p.primary, p.replica = p.replica, p.primary
		return func() { p.lead(p.primary) }
	})}
}

// ledToReplica is an address that leads new connections to the replica for a while.
func ledToReplica(now func() *pair) soak.Fault {
	return soak.Fault{Kind: "led to the replica", On: soak.Targets(serverTarget, 1), Last: time.Second, Grace: 6 * time.Second, Weight: 3, Begin: begin(func(*rand.Rand, int) func() {
		p := now()
		for _, worker := range p.links {
			worker[0].Point(p.replica.Addr())
		}
		return func() { p.lead(p.primary) }
	})}
}

// passwordRenewed is a server that takes only the new password of a user from now on. The file that
// the clients read gets the password a moment later.
func passwordRenewed(target, file string, set func(password string)) soak.Fault {
	n := 0
	return soak.Fault{Kind: "password renewed", On: soak.Targets(target, 1), Last: time.Second, Grace: 6 * time.Second, Weight: 6, Begin: begin(func(*rand.Rand, int) func() {
		n++
		password := fmt.Sprint("password-", n)
		set(password)
		return func() { must(os.WriteFile(file, []byte(password), 0o600)) }
	})}
}

// backupRestored is a server that starts again with its data of a while ago, which are in a
// directory of its own. Everything is back that was released since, and everything is gone that was
// granted since.
func backupRestored(data string) hit {
	paths := func(s *server.Server) (now, kept string) { return s.Place().Path(data), s.Place().Path("backup") }
	return hit{backupKind, 1, 2 * time.Second, func(s *server.Server) {
		now, kept := paths(s)
		s.Kill()
		got(exec.Command("cp", "-a", now, kept).Output())
		s.Restart(true)
	}, func(s *server.Server) {
		now, kept := paths(s)
		s.Kill()
		must(os.RemoveAll(now))
		must(os.Rename(kept, now))
		s.Restart(true)
	}}
}

const backupKind = "backup restored"

// withoutWorld leaves out the faults after which an older padlock may need a restart.
func withoutWorld(faults []soak.Fault) []soak.Fault {
	return slices.DeleteFunc(faults, func(f soak.Fault) bool {
		return slices.Contains([]string{"vanish", "no space", "read-only period", "led to the replica", backupKind, fileReplaced}, f.Kind)
	})
}
