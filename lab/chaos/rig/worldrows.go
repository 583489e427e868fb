package rig

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/padlock-go/padlock/internal/server"
)

// redisPair returns the setup of a row whose workers reach the primary of two Redis servers.
func redisPair(s *Site) *setup {
	servers := s.redis(2, server.RedisOptions{Args: []string{"--repl-diskless-sync-delay", "0"}})
	set := s.through(servers[:1], redisURL(0, "restart-guard=known"))
	p := &pair{servers[0], servers[1], set.links, swapRedis}
	tell(p.replica, "REPLICAOF "+strings.ReplaceAll(p.primary.Addr(), ":", " "))
	set.faults = append(set.faults, p.rolesSwapped(), ledToReplica(func() *pair { return p }))
	return set
}

// swapRedis tells the primary to hand over. It refuses that until the replica is connected. It is a slave
// before the replica is the master.
func swapRedis(primary, replica *server.Server) {
	var err error
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if strings.Contains(askRedis(replica, "INFO", "replication"), "role:master") {
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

// sayMaria runs statements as root. A replica with read_only lets root write, and no other user.
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
