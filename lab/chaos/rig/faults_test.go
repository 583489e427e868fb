package rig

import (
	"bufio"
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/lab/soak"
)

// place is a site that ends with its test.
func place(t *testing.T) *Site {
	t.Helper()
	site, err := NewSite(1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := site.End(); err != nil {
			t.Error(err)
		}
	})
	return site
}

func start(t *testing.T, site *Site, n int, o server.RedisOptions) []*server.Server {
	t.Helper()
	server.Redis(t, server.RedisOptions{}) // skips the test, or fails it in CI, if there is none
	var servers []*server.Server
	if err := try(func() { servers = site.redis(n, o) }); err != nil {
		t.Fatal(err)
	}
	return servers
}

// ask sends a command and returns the n-th line of the reply.
func ask(t *testing.T, addr, command string, n int) string {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "%s\r\n", command)
	r := bufio.NewReader(conn)
	var line string
	for range n {
		if line, err = r.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
	}
	return strings.TrimSpace(line)
}

// once makes a fault and ends it.
func once(t *testing.T, f soak.Fault) {
	t.Helper()
	undo, err := f.Begin(rand.New(rand.NewPCG(1, 1)), 0)
	if err == nil && undo != nil {
		err = undo()
	}
	if err != nil {
		t.Fatalf("%s: %v", f.Kind, err)
	}
}

// Faults set the clock of a server, forward and back.
func TestClockJump(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("gcc"); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip("there is no C compiler for the clock shim")
	}
	ofRedis := func(t *testing.T, site *Site) (clock func() float64) {
		addr := start(t, site, 1, server.RedisOptions{})[0].Addr()
		return func() float64 { return number(t, ask(t, addr, "TIME", 3)) }
	}
	for name, start := range map[string]func(*testing.T, *Site) (clock func() float64){
		"redis":      ofRedis,
		"PostgreSQL": ofDatabase(&postgreSQL, "SELECT extract(epoch FROM clock_timestamp())"),
		"MariaDB":    ofDatabase(&mariaDB, "SELECT unix_timestamp(sysdate(6))"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			site := place(t)
			clock := start(t, site)
			off := func() (least, most float64) { // the server replies between two looks at the clock
				before := float64(time.Now().UnixMicro()) / 1e6
				now := clock()
				return now - float64(time.Now().UnixMicro())/1e6, now - before
			}
			if least, most := off(); most < -1 || least > 1 {
				t.Fatalf("the server's clock is %v to %v s off before anything was done", least, most)
			}
			for _, f := range site.clockFaults() {
				least, most := off()
				for range 10 {
					once(t, f)
				}
				atLeast, atMost := off()
				if ok := map[string]bool{"clock jump": atLeast > most, clockSetBack: atMost < least}[f.Kind]; !ok {
					t.Errorf("%s: the server's clock is %v to %v s off, before %v to %v", f.Kind, atLeast, atMost, least, most)
				}
			}
		})
	}
}

// ofDatabase returns a function that starts a server, and returns one that asks it for its time.
func ofDatabase(d *database, query string) func(*testing.T, *Site) func() float64 {
	return func(t *testing.T, site *Site) func() float64 {
		var srv *server.Server
		if err := try(func() { srv = d.start(site, "") }); err != nil && os.Getenv("CI") != "true" {
			t.Skip(err)
		} else if err != nil {
			t.Fatal(err)
		}
		return func() (now float64) {
			if err := d.administer(d.admin(srv.Addr()), func(ctx context.Context, conn *sql.Conn) error {
				return conn.QueryRowContext(ctx, query).Scan(&now)
			}); err != nil {
				t.Fatal(err)
			}
			return now
		}
	}
}

func number(t *testing.T, text string) float64 {
	t.Helper()
	n, err := strconv.ParseFloat(text, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestFailover(t *testing.T) {
	t.Parallel()
	site := place(t)
	servers := start(t, site, 2, server.RedisOptions{})
	links := site.proxies(1, servers[0].Addr())
	f := &failover{servers, links, server.NewProxy(t, servers[0].Addr())}
	if err := try(f.follow); err != nil {
		t.Fatal(err)
	}
	before := f.servers[0].Addr()
	once(t, f.fault())
	if f.servers[0].Addr() == before {
		t.Error("the primary is as before")
	}
	if role := ask(t, links[0][0].Addr(), "ROLE", 3); role != "master" {
		t.Errorf("workers come to a %s", role)
	}
	if role := ask(t, f.servers[1].Addr(), "ROLE", 3); role != "slave" {
		t.Errorf("the old primary is a %s", role)
	}
}

// Every kind of fault can be made and ended on a server, which answers afterwards.
func TestEveryFaultEnds(t *testing.T) {
	t.Parallel()
	for _, o := range []server.RedisOptions{{}, {Persist: true}} {
		everyFaultEnds(t, o)
	}
}

func everyFaultEnds(t *testing.T, o server.RedisOptions) {
	t.Helper()
	site := place(t)
	servers := start(t, site, 1, o)
	links := site.proxies(1, servers[0].Addr())
	for _, f := range append(networkFaults(links), site.redisFaults(servers, o)...) {
		if !strings.Contains(f.Kind, "clock") {
			once(t, f)
		}
		for _, addr := range []string{links[0][0].Addr(), servers[0].Addr()} { // the client replaces a broken connection
			if pong := ask(t, addr, "SET x y", 1); pong != "+OK" {
				t.Errorf("after %s: %q", f.Kind, pong)
			}
		}
	}
}
