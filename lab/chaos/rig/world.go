package rig

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

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

// redisPair returns the setup of a row whose workers reach the primary of two Redis servers.
func redisPair(s *Site) *setup {
	servers := s.redis(2, server.RedisOptions{Args: []string{"--repl-diskless-sync-delay", "0"}})
	set := s.through(servers[:1], redisURL(0, "restart-guard=known"))
	p := &pair{servers[0], servers[1], set.links, swapRedis}
	tell(p.replica, "REPLICAOF "+strings.ReplaceAll(p.primary.Addr(), ":", " "))
	set.faults = append(set.faults, p.rolesSwapped(), ledToReplica(func() *pair { return p }))
	return set
}

// swapRedis tells the primary to hand over. It refuses that until the replica is connected.
func swapRedis(primary, replica *server.Server) {
	var err error
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if strings.Contains(askRedis(primary, "INFO", "replication"), "role:slave") {
			return
		}
		err = try(func() { tell(primary, "FAILOVER TO "+strings.ReplaceAll(replica.Addr(), ":", " ")+" TIMEOUT 2000") })
	}
	must(fmt.Errorf("the roles cannot be swapped: %w", err))
}

// mariaPair returns the setup of a row whose workers reach the primary of two MariaDB servers, as a
// user whose password changes.
func mariaPair(s *Site) *setup {
	var servers []*server.Server
	for id := range 2 {
		servers = append(servers, server.MariaDBWith(&s.host, server.MariaDBOptions{Args: []string{"--log-bin=bin", "--log-slave-updates", fmt.Sprint("--server-id=", id+1)}}))
	}
	file := filepath.Join(s.dir, "password")
	url := func(at string) string { return "mysql://app@" + at + "/mysql?password-file=" + file }
	set := s.through(servers[:1], func(at []string) string { return url(at[0]) })
	p := &pair{servers[0], servers[1], set.links, swapMaria}
	followMaria(p.replica, p.primary, "")
	sayMaria(p.primary, "CREATE USER app", "GRANT ALL ON mysql.* TO app")
	renewed := passwordRenewed(serverTarget, file, func(password string) {
		sayMaria(p.primary, "ALTER USER app IDENTIFIED BY '"+password+"'", "KILL USER app")
	})
	must(got(renewed.Begin(nil, 0))())
	set.faults = append(set.faults, p.rolesSwapped(), ledToReplica(func() *pair { return p }), renewed)
	set.log = func() string { return servers[0].Log() + servers[1].Log() }
	prepare(url(p.primary.Addr()))
	return set
}

// sayMaria runs statements as an administrator, who may write to a replica.
func sayMaria(srv *server.Server, statements ...string) {
	must(mariaDB.administer(mariaURL(srv.Addr()), func(ctx context.Context, conn *sql.Conn) error { return execute(ctx, conn, statements) }))
}

// followMaria makes a server the replica of another one.
func followMaria(replica, primary *server.Server, more string) {
	sayMaria(replica, "SET GLOBAL read_only = 1", fmt.Sprintf("CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_PORT=%d, MASTER_USER='root', MASTER_CONNECT_RETRY=1, MASTER_USE_GTID=slave_pos%s", primary.Place().Port, more), "START SLAVE")
}

// swapMaria makes the primary read-only, waits until the replica has all of its writes, and
// exchanges their roles.
func swapMaria(primary, replica *server.Server) {
	sayMaria(primary, "SET GLOBAL read_only = 1")
	at := askMaria(primary, "SELECT @@gtid_binlog_pos")
	if askMaria(replica, "SELECT MASTER_GTID_WAIT('"+at+"', 20)") != "0" {
		must(fmt.Errorf("the replica has not reached %s: %s", at, replica.Log()))
	}
	sayMaria(replica, "STOP SLAVE", "RESET SLAVE ALL", "SET GLOBAL read_only = 0")
	followMaria(primary, replica, ", MASTER_DEMOTE_TO_SLAVE=1")
}

// askMaria returns the value of a query.
func askMaria(srv *server.Server, query string) (value string) {
	must(mariaDB.administer(mariaURL(srv.Addr()), func(ctx context.Context, conn *sql.Conn) error {
		return conn.QueryRowContext(ctx, query).Scan(&value)
	}))
	return value
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

// redisLogin returns the setup of a row whose workers log in to Redis. When the password changes,
// all connections of the user end.
func redisLogin(s *Site) *setup {
	file := filepath.Join(s.dir, "password")
	servers := s.redis(1, server.RedisOptions{ACL: "user default on nopass ~* &* +@all\nuser app on ~* &* +@all\n"})
	set := s.through(servers, func(at []string) string {
		return fmt.Sprintf("redis://app@%s?max-ttl=%v&restart-guard=strict&password-file=%s", at[0], guardTTL, file)
	})
	renewed := passwordRenewed(serverTarget, file, func(password string) {
		tell(servers[0], "ACL SETUSER app resetpass >"+password)
		tell(servers[0], "CLIENT KILL USER app")
	})
	must(got(renewed.Begin(nil, 0))())
	set.faults = append(append(set.faults, faultsOf(servers, 4*time.Second, redisHits...)...), renewed)
	return set
}

// etcdLogin returns the setup of a row whose workers log in to etcd. When the password changes, the
// members forget the logins of the user.
func etcdLogin(s *Site) *setup {
	file := filepath.Join(s.dir, "password")
	servers := server.EtcdCluster(&s.host, 3, nil)
	ctx := context.Background()
	c := got(clientv3.New(clientv3.Config{Endpoints: addrs(servers)}))
	defer c.Close()
	got(c.UserAdd(ctx, "root", "root"))
	got(c.UserGrantRole(ctx, "root", "root"))
	got(c.RoleAdd(ctx, "padlock"))
	got(c.RoleGrantPermission(ctx, "padlock", "soak/", clientv3.GetPrefixRangeEnd("soak/"), clientv3.PermissionType(clientv3.PermReadWrite)))
	got(c.UserAdd(ctx, "app", "none yet"))
	got(c.UserGrantRole(ctx, "app", "padlock"))
	got(c.AuthEnable(ctx))
	set := s.through(servers, joined("etcd://app@", "/soak/?password-file="+file))
	set.probeLate()
	renewed := passwordRenewed(serverTarget, file, func(password string) {
		root := got(clientv3.New(clientv3.Config{Endpoints: addrs(servers), Username: "root", Password: "root"}))
		defer root.Close()
		got(root.UserChangePassword(ctx, "app", password))
	})
	must(got(renewed.Begin(nil, 0))())
	faults := faultsOf(servers, 8*time.Second, etcdHits...)
	set.faults = append(set.faults, oneAtATime(etcdTarget, append(faults, renewed))...)
	return set
}

// noSpace is a quota of etcd that is used up for a while. The alarm is raised without the data: each
// member refuses the same requests.
func noSpace(servers []*server.Server) soak.Fault {
	alarm := func(action string) {
		body := strings.NewReader(`{"action":"` + action + `","memberID":"1","alarm":"NOSPACE"}`)
		reply := got((&http.Client{Timeout: 15 * time.Second}).Post(servers[0].URL()+"/v3/maintenance/alarm", "application/json", body))
		reply.Body.Close()
		if reply.StatusCode != http.StatusOK {
			must(fmt.Errorf("alarm %s: %s", action, reply.Status))
		}
	}
	return soak.Fault{Kind: "no space", On: soak.Targets(serverTarget, len(servers)), Last: 2 * time.Second, Grace: 8 * time.Second, Begin: begin(func(*rand.Rand, int) func() {
		alarm("ACTIVATE")
		return func() { alarm("DEACTIVATE") }
	})}
}

// readOnlyPeriods are two ways in which providers of PostgreSQL forbid writes for a while. After the
// second one, sessions that began meanwhile stay read-only.
var readOnlyPeriods = [][2][]string{
	{
		{"ALTER SYSTEM SET default_transaction_read_only = on", "SELECT pg_reload_conf()"},
		{"ALTER SYSTEM RESET default_transaction_read_only", "SELECT pg_reload_conf()"},
	}, {
		{"ALTER DATABASE postgres SET default_transaction_read_only = on", killPostgres},
		{"SET default_transaction_read_only = off", "ALTER DATABASE postgres RESET default_transaction_read_only"},
	},
}

// readOnlyPeriod forbids writes for a while.
func (d *database) readOnlyPeriod(admin string) soak.Fault {
	return soak.Fault{Kind: "read-only period", Last: 2 * time.Second, Grace: 6 * time.Second, Weight: 3, Begin: begin(func(dice *rand.Rand, _ int) func() {
		way := readOnlyPeriods[dice.IntN(len(readOnlyPeriods))]
		run := func(statements []string) {
			must(d.administer(admin, func(ctx context.Context, conn *sql.Conn) error { return execute(ctx, conn, statements) }))
		}
		run(way[0])
		return func() { run(way[1]) }
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
		got(output(exec.Command("cp", "-a", now, kept)))
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

// snapshotRestored does the same with a Redis that keeps nothing on its disk otherwise.
var snapshotRestored = hit{backupKind, 1, 2 * time.Second, saying("SAVE"), startAgain}

// withoutWorld leaves out the faults after which an older padlock may need a restart.
func withoutWorld(faults []soak.Fault) []soak.Fault {
	return slices.DeleteFunc(faults, func(f soak.Fault) bool {
		return slices.Contains([]string{"vanish", "no space", "read-only period", "led to the replica", backupKind}, f.Kind)
	})
}
