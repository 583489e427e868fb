//go:build linux

package main

import (
	"bufio"
	"context"
	"database/sql"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver of PostgreSQL
	"github.com/redis/rueidis"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/open/all"
)

// An engine is one kind of server with its settings.
type engine struct {
	name  string
	part  int  // the holds of the plan are divided by this number: 1 or 10
	keeps bool // a restart keeps the holds
	start func(h *server.Host, holds int) (*rig, error)
}

// rig is a running server, or a cluster.
type rig struct {
	url     string
	servers []*server.Server
	busy    int  // how many primaries of a cluster the locks are spread over; 0 means all primaries
	crash   bool // if true, a restart kills the server; else the server is asked to end, and saves its data first

	// data returns how many bytes the server's data take. requests returns how many requests of
	// clients the server has run. That number begins again at 0 after a restart.
	data, requests func() (float64, error)
	close          func()
}

func (r *rig) open() (driver.Store, error) { return all.Store(context.Background(), r.url) }

// pids lists the processes of all servers.
func (r *rig) pids() (all []int) {
	for _, s := range r.servers {
		all = append(all, family(s.Pid())...)
	}
	return all
}

// restart ends the server and starts it again. It returns when the server is ready.
func (r *rig) restart() {
	for _, s := range r.servers {
		if r.crash {
			s.Kill()
		} else {
			s.Stop()
		}
	}
	for _, s := range r.servers {
		s.Restart(true)
	}
}

const (
	redisRow    = "Redis"
	unsavedRow  = "Redis, nothing on disk"
	postgresRow = "PostgreSQL"
	advisoryRow = "PostgreSQL, advisory locks"
	etcdRow     = "etcd"
)

// engines are the rows of the experiments with many holds.
var engines = []engine{
	{redisRow, 1, true, func(h *server.Host, _ int) (*rig, error) {
		return startRedis(h, false, "--save", "3600 1") // it saves its data when it ends
	}},
	{unsavedRow, 10, false, func(h *server.Host, _ int) (*rig, error) { return startRedis(h, true) }},
	{postgresRow, 10, true, func(h *server.Host, _ int) (*rig, error) {
		return startPostgres(h, "postgres", "?sslmode=disable&pool=16", "padlock_locks", "padlock_grants")
	}},
	{advisoryRow, 10, false, func(h *server.Host, holds int) (*rig, error) {
		// PostgreSQL has room for max_locks_per_transaction × max_connections locks. Here
		// max_connections is 1,000.
		each := strconv.Itoa(holds/500 + 64)
		return startPostgres(h, "postgres+advisory", "?sslmode=disable", "padlock_fences",
			"-c", "max_locks_per_transaction="+each)
	}},
	{etcdRow, 10, true, startEtcd},
}

func startRedis(h *server.Host, crash bool, args ...string) (*rig, error) {
	r := &rig{crash: crash}
	err := h.Try(func(t testing.TB) {
		srv := server.Redis(t, server.RedisOptions{Args: args})
		r.url, r.servers = "redis://"+srv.Addr(), []*server.Server{srv}
	})
	r.setFunctions()
	return r, err
}

// setFunctions sets the fields data, requests and close of a rig for Redis. These functions open
// new connections each time that they are called, because a restart of the server ends the old
// ones.
func (r *rig) setFunctions() {
	r.close = func() {}
	r.data = func() (float64, error) {
		return r.sum("memory", func(name, value string) float64 {
			if name != "used_memory" {
				return 0
			}
			n, _ := strconv.ParseFloat(value, 64)
			return n
		})
	}
	r.requests = func() (float64, error) { return r.sum("commandstats", scripts) }
}

// sum adds up the figures of the lines in a section of INFO, over all servers.
func (r *rig) sum(section string, figure func(name, value string) float64) (n float64, err error) {
	for _, s := range r.servers {
		text, err := sendCommand(context.Background(), s, "INFO", section)
		if err != nil {
			return 0, err
		}
		for line := range strings.Lines(text) {
			name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
			n += figure(name, value)
		}
	}
	return n, nil
}

// sendCommand sends a command to one Redis, over a connection of its own, and returns the reply as
// text.
func sendCommand(ctx context.Context, s *server.Server, command ...string) (string, error) {
	c, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{s.Addr()}, ForceSingleClient: true, DisableCache: true})
	if err != nil {
		return "", err
	}
	defer c.Close()
	reply, err := c.Do(ctx, c.B().Arbitrary(command...).Build()).ToAny()
	return fmt.Sprint(reply), err
}

// scripts reads one line of INFO commandstats. If the line is about EVAL or EVALSHA, scripts
// returns how often the command was called. For other commands it returns 0: padlock sends only
// scripts, and the commands that run inside of a script are not requests.
func scripts(name, value string) float64 {
	switch name {
	case "cmdstat_evalsha", "cmdstat_eval":
		calls, _, _ := strings.Cut(strings.TrimPrefix(value, "calls="), ",")
		n, _ := strconv.ParseFloat(calls, 64)
		return n
	}
	return 0
}

// startPostgres starts PostgreSQL with its data in memory. tablesAndArgs lists the names of the
// tables that count as data, and after them the arguments of the server. The first text that begins
// with a dash is the first argument.
func startPostgres(h *server.Host, scheme, parameters string, tablesAndArgs ...string) (*rig, error) {
	var tables, args []string
	for i, text := range tablesAndArgs {
		if strings.HasPrefix(text, "-") {
			args = tablesAndArgs[i:]
			break
		}
		tables = append(tables, text)
	}
	within, err := os.MkdirTemp("/dev/shm", "padlock-bench-scale-")
	if err != nil {
		return nil, err
	}
	h.Cleanup(func() { os.RemoveAll(within) })
	if err := os.Chmod(within, 0o755); err != nil { // PostgreSQL runs as another user
		return nil, err
	}
	r := &rig{crash: true}
	url := ""
	err = h.Try(func(t testing.TB) {
		srv := server.Postgres(t, server.PostgresOptions{Within: within, Args: append([]string{
			"-c", "shared_preload_libraries=pg_stat_statements", "-c", "max_connections=1000",
		}, args...)})
		r.servers, url = []*server.Server{srv}, srv.URL()
		r.url = scheme + "://postgres@" + srv.Addr() + "/postgres" + parameters
	})
	if err != nil {
		return nil, err
	}
	admin, err := sql.Open("pgx", url)
	if err != nil {
		return nil, err
	}
	r.close = func() { admin.Close() }
	number := func(query string) func() (float64, error) {
		return func() (n float64, err error) { return n, admin.QueryRow(query).Scan(&n) }
	}
	r.data = number("SELECT coalesce(sum(pg_total_relation_size(oid)), 0) FROM pg_class WHERE relname IN ('" + strings.Join(tables, "','") + "')")
	r.requests = number("SELECT coalesce(sum(calls), 0) FROM pg_stat_statements WHERE query LIKE '%padlock_%' OR query LIKE '%advisory%'")
	_, err = admin.Exec("CREATE EXTENSION pg_stat_statements")
	return r, err
}

func startEtcd(h *server.Host, _ int) (*rig, error) {
	r := &rig{crash: true, close: func() {}}
	addr := ""
	err := h.Try(func(t testing.TB) {
		srv := server.Etcd(t, server.EtcdOptions{Quota: 8 << 30})
		r.servers, addr = []*server.Server{srv}, srv.Addr()
		r.url = "etcd://" + addr
	})
	figures := func(wanted func(name string) float64) func() (float64, error) {
		return func() (sum float64, err error) {
			reply, err := http.Get("http://" + addr + "/metrics")
			if err != nil {
				return 0, err
			}
			defer reply.Body.Close()
			lines := bufio.NewScanner(reply.Body)
			for lines.Scan() {
				name, value, _ := strings.Cut(lines.Text(), " ")
				if i := strings.LastIndexByte(lines.Text(), ' '); strings.Contains(name, "{") && i > 0 {
					name, value = lines.Text()[:i], lines.Text()[i+1:]
				}
				if sign := wanted(name); sign != 0 {
					n, _ := strconv.ParseFloat(value, 64)
					sum += sign * n
				}
			}
			return sum, lines.Err()
		}
	}
	r.data = figures(func(name string) float64 {
		if name == "etcd_mvcc_db_total_size_in_use_in_bytes" {
			return 1
		}
		return 0
	})
	r.requests = figures(func(name string) float64 {
		switch {
		case strings.HasPrefix(name, "grpc_server_msg_received_total{"):
			return 1
		case strings.HasPrefix(name, "grpc_server_handled_total{") && strings.Contains(name, `"bidi_stream"`):
			return -1 // the server also counts the end of a stream as a message
		}
		return 0
	})
	return r, err
}
