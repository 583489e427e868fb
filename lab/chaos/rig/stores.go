package rig

import (
	"context"
	_ "embed"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/lab/soak"
	"github.com/padlock-go/padlock/stores/memstore"
)

// Row is a store in one configuration.
type Row struct {
	Name    string
	Promise string // the faults that the store covers, for the table
	// uncovered lists the faults that the store's Guarantees do not cover. If such a fault breaks a
	// lock, that is not an error of the store.
	uncovered []string
	build     func(*Site) (*setup, error)
}

// setup is what the engine needs to run the soak of a Row. The servers of the Row are already
// running.
type setup struct {
	stages   [][]string
	programs [][]string // by stage and worker, as in soak.Run
	// Workers of all kinds must get locks, if the run takes long enough.
	kinds  []string
	kindOf func(worker int, other bool) string
	enough time.Duration
	open   soak.Opener
	faults []soak.Fault
	links  [][]*server.Proxy // by worker and server
	// goroutines is the number of goroutines of a worker, or 0 for the usual number.
	goroutines int
	load       func(*soak.Load) // changes the load; may be nil
	back       time.Duration    // as in soak.Run
	restless   bool             // as in soak.Run
	// check looks at the servers after the run. It returns a violation, whose text begins with the
	// number of the invariant, or "". It may be nil.
	check func(*soak.Outcome) (broken string, err error)
	log   func() string // returns the server's log; may be nil
}

// storeRows is the table of stores. For a new store, add a line.
func storeRows() []Row {
	const off, known, strict = "restart-guard=off", "restart-guard=known", "restart-guard=strict"
	plain := server.RedisOptions{}
	everysec := server.RedisOptions{Args: []string{"--appendonly", "yes", "--appendfsync", "everysec"}}
	always := server.RedisOptions{Persist: true}
	lossy := []string{"flushall", "clock jump"}
	dies := append(slices.Clone(lossy), "restart without data", backupKind)
	edited := []string{rowsDeleted, "clock jump", backupKind, fileReplaced}
	return []Row{
		{"memory", "all of it: nothing outside of the process can fail", nil, built(memory)},
		{"file", "all but removing the lock files", []string{"remove lock file"}, built(files)},
		{"semaphore", "all but removing the semaphores (ipcrm), which is not tried", nil, built(semaphores)},
		{"redis no persistence, guard off", "no restart", dies, redis(plain, off)},
		{"redis no persistence, guard default", "restarts, as long as all clients knew the server before", append(slices.Clone(lossy), "kill worker"), redis(plain, known)},
		{"redis no persistence, guard strict", "restarts", lossy, redis(plain, strict)},
		{"redis guard strict, older and newer padlock", "restarts", lossy, rolling(redis(plain, strict))},
		{"redis AOF everysec, guard default", "restarts, as long as all clients knew the server before", append(slices.Clone(dies), "kill worker"), redis(everysec, known)},
		{"redis AOF always", "restarts that keep the disk", dies, redis(always, "durable=yes")},
		{"redis layout=string, guard strict", "restarts", lossy, redis(plain, strict+"&layout=string")},
		{"padlock run on redis, guard strict", "restarts, and deaths and stops of padlock", lossy, built(underRun)},
		{"redis, one caller a process", "delays of the network; no other fault is caused", nil, built(alone(strict))},
		{"redis cluster of three, guard strict", "restarts, stops and slots that move", nil, built(cluster)},
		{"redis behind failover", "no failover", append(slices.Clone(dies), "restart with data", "failover"), built(replicated)},
		{"redis pair behind one address", "planned swaps of roles", nil, built(redisPair)},
		{"redis, with a login", "delays, restarts of connections and new passwords", nil, built(redisLogin)},
		{"PostgreSQL", "restarts and table locks; not rows that are deleted", edited, inDatabase(postgreSQL)},
		{"PostgreSQL with a synchronous standby", "failovers to the standby", nil, built(withStandby)},
		{"PostgreSQL, older and newer padlock", "restarts and table locks; not rows that are deleted", edited, rolling(inDatabase(postgreSQL))},
		{"PostgreSQL, invoices in transactions", "restarts and table locks; not rows that are deleted", edited, bank(postgreSQL, bankWord)},
		{"MariaDB", "restarts and table locks; not rows that are deleted", edited, inDatabase(mariaDB)},
		{"MariaDB, invoices in transactions", "restarts and table locks; not rows that are deleted", edited, bank(mariaDB, bankWord)},
		{"MariaDB, older and newer padlock", "restarts and table locks; not rows that are deleted", edited, rolling(inDatabase(mariaDB))},
		{"MariaDB pair behind one address", "planned swaps of roles, and new passwords", nil, built(mariaPair)},
		{"etcd of three", "deaths and stops of one member at a time", nil, built(etcdMembers)},
		{"etcd of three, older and newer padlock", "deaths and stops of one member at a time", nil, rolling(built(etcdMembers))},
		{"etcd of three, with a login", "deaths and stops of one member at a time, and new passwords", nil, built(etcdLogin)},
		{"ZooKeeper of three", "restarts and stops of one server at a time", nil, built(zooKeepers)},
		{"ZooKeeper of three, older and newer padlock", "restarts and stops of one server at a time", nil, rolling(built(zooKeepers))},
		{"SQLite", "long write transactions; not rows that are deleted", edited, inDatabase(sqliteFile)},
		{"SQLite, older and newer padlock", "long write transactions; not rows that are deleted", edited, rolling(inDatabase(sqliteFile))},
		{"SQLite, PHP's table", "long write transactions; not rows that are deleted", edited, inDatabase(symfonyFile)},
		{"PostgreSQL advisory locks", "restarts, ended connections and table locks: a holder learns of its loss within loss-delay", []string{backupKind}, inDatabase(advisory)},
		{"PostgreSQL advisory locks, older and newer padlock", "restarts, ended connections and table locks: a holder learns of its loss within loss-delay", []string{backupKind}, rolling(inDatabase(advisory))},
		{"MariaDB named locks", "restarts, ended connections and table locks: a holder learns of its loss within loss-delay", []string{backupKind}, inDatabase(named)},
		{"memcached", "a server that neither restarts nor drops data", []string{"flush_all", "restart without data"}, built(memcached)},
		{"S3 in memory", "a service that is throttled, or gets requests twice; not its clock", []string{"clock jump"}, inCloud(bucket, "s3://soak/locks?skew=0s&endpoint=http://%s")},
		{"DynamoDB in memory", "a service that is throttled, or gets requests twice; not its clock", []string{"clock jump"}, inCloud(table, "dynamodb://soak/locks?skew=0s&endpoint=http://%s")},
		{"Kubernetes in memory", "a service that is throttled, gets requests twice, or sets its clock", nil, inCloud(leases, "kubernetes://shop/locks?endpoint=http://%s")},
		{"quorum of 5 redis, guard strict", "restarts", lossy, inRedis(5, plain, compose("quorum", "restart-guard=strict&lazy=yes"))},
		{"quorum of redis, PostgreSQL and etcd", "restarts; not rows that are deleted", append(slices.Clone(lossy), edited...), built(mixed)},
		{"all over two redis while names move, guard strict", "restarts", lossy, moving},
		{"HTTP to redis AOF always: Go, Python, Node, shells", "restarts that keep the disk, and deaths of servers of padlock", dies, overHTTP(kinds, serveRedis(always, "durable=yes"))},
		{"HTTP to redis no persistence, guard strict: Go, Python, Node, shells", "restarts, and deaths of servers of padlock", lossy, overHTTP(kinds, serveRedis(plain, strict))},
		{"HTTP to PostgreSQL: Go, Python, Node, shells", "restarts and table locks, and deaths of servers of padlock; not rows that are deleted", edited, overHTTP(kinds, servePostgres)},
	}
}

func memory(*Site) *setup {
	first := memstore.New()
	return &setup{open: func(context.Context, string) (driver.Store, error) { return first.Open(), nil }}
}

func files(s *Site) *setup {
	dir := filepath.Join(s.dir, "locks")
	url, bad := "file://"+dir, filepath.Join(s.dir, "reads-fail")
	set := &setup{open: func(ctx context.Context, _ string) (driver.Store, error) { return Open(ctx, url) }, faults: []soak.Fault{removeFile(dir)}}
	config := url
	if runtime.GOOS == "linux" {
		config = strings.Join([]string{unreadWord, bad, url}, " ")
		set.faults = append(set.faults, readsFail(bad))
	}
	set.stages = [][]string{slices.Repeat([]string{config}, s.Workers)}
	return set
}

// unreadWord begins the configuration of a worker whose reads of files may fail.
const unreadWord = "unread"

// readsFail is a disk whose files cannot be read for a while (EIO).
func readsFail(bad string) soak.Fault {
	return soak.Fault{Kind: "reads fail", Last: time.Second, Grace: 4 * time.Second, Weight: 3, Begin: begin(func(*rand.Rand, int) func() {
		must(os.WriteFile(bad, nil, 0o600))
		return func() { must(os.Remove(bad)) }
	})}
}

// semaphores returns the setup for semstore. It has no faults: a fault that damages the semaphores
// of this run would also damage the semaphores of other programs on the machine.
func semaphores(s *Site) *setup {
	config := slices.Repeat([]string{"semaphore:?hash=xxh128"}, s.Workers)
	return &setup{stages: [][]string{config}, open: Open}
}

// inRedis returns the setup of a row whose locks are in n Redis servers.
func inRedis(n int, o server.RedisOptions, url func(at []string) string) func(*Site) (*setup, error) {
	return built(func(s *Site) *setup {
		servers := s.redis(n, o)
		set := s.through(servers, url)
		set.faults = append(set.faults, s.redisFaults(servers, o)...)
		return set
	})
}

func redis(o server.RedisOptions, query string) func(*Site) (*setup, error) {
	return inRedis(1, o, redisURL(0, query))
}

func replicated(s *Site) *setup {
	servers := s.redis(2, server.RedisOptions{})
	set := s.through(servers[:1], redisURL(0, "restart-guard=known"))
	f := &failover{servers, set.links, server.NewProxy(&s.host, servers[0].Addr())}
	f.follow()
	set.faults = append(set.faults, f.fault())
	return set
}

// compose makes the URL of a store that is made of all servers.
func compose(kind, query string) func(at []string) string {
	return func(at []string) string {
		var members []string
		for i := range at {
			members = append(members, redisURL(i, query)(at))
		}
		return kind + ":?" + url.Values{"store": members}.Encode()
	}
}

// mixed returns the setup for a quorum of three different stores. Two of the three servers must
// work, so only one may have a fault at a time. The engine never causes two faults with the same
// target at once. So mixed gives all faults the same target.
func mixed(s *Site) *setup {
	servers := s.redis(1, server.RedisOptions{})
	pg, etcd := postgresServer(s, ""), server.Etcd(&s.host, server.EtcdOptions{})
	set := s.through(append(servers, pg, etcd), func(at []string) string {
		members := url.Values{"store": {redisURL(0, "restart-guard=strict")(at), postgresURL(at[1]), "etcd://" + at[2] + "/soak/"}}
		return "quorum:?" + members.Encode()
	})
	set.faults = append(set.faults, s.redisFaults(servers, server.RedisOptions{})...)
	set.faults = append(set.faults, postgreSQL.serverFaults(pg, "")...)
	set.faults = append(set.faults, etcdFaults([]*server.Server{etcd}, soak.Targets(serverTarget, 1)[0])...)
	set.goroutines, set.load, set.log = 2, calm, pg.Log
	prepare(postgresURL(pg.Addr()))
	return set
}

// calm sets a load that the slowest of three stores can bear. A quorum waits for a member for a
// twentieth of the lease; a member that is slower than that for everybody grants nothing to anybody.
func calm(l *soak.Load) { l.MinTTL, l.MaxTTL = 2*time.Second, 4*time.Second }

// moving returns the setup for a move of all locks from one server to another. The workers use the
// first server in the first stage, both servers in the second, and the second server in the third.
func moving(s *Site) (*setup, error) {
	const guard = "restart-guard=strict"
	set, err := inRedis(2, server.RedisOptions{}, redisURL(0, guard))(s)
	if err == nil {
		set.stages = append(set.stages, stageOf(set.links, compose("all", guard)), stageOf(set.links, redisURL(1, guard)))
	}
	return set, err
}
