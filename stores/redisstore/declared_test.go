package redisstore_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/drivertest"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/stores/redisstore"
)

var quoted = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)

// TestDeclaredKeys runs the contract while MONITOR shows what the scripts do. Each key of a command
// in a script is among the KEYS of its call: Dragonfly and clusters refuse other ones.
func TestDeclaredKeys(t *testing.T) {
	server.Thorough(t)
	t.Parallel()
	for name, opts := range map[string][]redisstore.Option{"set": nil, "string": {redisstore.PlainStrings()}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := server.Redis(t, server.RedisOptions{})
			conn, err := net.Dial("tcp", srv.Addr())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			fmt.Fprint(conn, "MONITOR\r\n")
			lines := bufio.NewScanner(conn)
			lines.Buffer(nil, 1<<20)
			if !lines.Scan() || lines.Text() != "+OK" {
				t.Fatalf("MONITOR: %q %v", lines.Text(), lines.Err())
			}
			commands := make(chan int)
			go func() { commands <- undeclared(t, lines) }()
			t.Run("contract", func(t *testing.T) {
				drivertest.Run(t, drivertest.Harness{Parallel: 4, Open: func(ctx context.Context) (driver.Store, error) { return open(ctx, srv, opts...) }})
			})
			ask(t, srv, "ECHO", "the end")
			if n := <-commands; n < 1000 {
				t.Errorf("only %d commands of scripts were seen", n)
			}
		})
	}
}

// undeclared reads lines of MONITOR until ECHO. It reports the keys of commands in scripts that are
// not among those of the script's call, and returns how many commands in scripts it has read.
func undeclared(t *testing.T, lines *bufio.Scanner) (commands int) {
	keys := map[string]bool{}
	for lines.Scan() {
		args := quoted.FindAllString(lines.Text(), -1)
		if len(args) == 0 {
			continue
		}
		name := strings.ToUpper(strings.Trim(args[0], `"`))
		switch {
		case name == "ECHO":
			return commands
		case strings.HasPrefix(name, "EVAL"):
			n, _ := strconv.Atoi(strings.Trim(args[2], `"`))
			clear(keys)
			for _, key := range args[3 : 3+n] {
				keys[key] = true
			}
		case strings.Contains(lines.Text(), " lua] "):
			commands++
			named := args[1:]
			switch name {
			case "TIME", "PUBSUB", "PUBLISH", "SPUBLISH":
				named = nil // these have no keys
			case "DEL", "EXISTS", "MGET":
			default:
				named = named[:1]
			}
			for _, key := range named {
				if !keys[key] {
					t.Errorf("not declared: %s", lines.Text())
				}
			}
		}
	}
	t.Error("MONITOR ended", lines.Err())
	return commands
}

// awaitUptime waits until the server has run for some seconds more.
func awaitUptime(t *testing.T, srv *server.Server, seconds int) {
	t.Helper()
	c := rawClient(t, single(srv.Addr()))
	uptime := func() int {
		n, err := strconv.Atoi(regexp.MustCompile(`uptime_in_seconds:(\d+)`).FindStringSubmatch(askBy(t, c, "INFO", "server"))[1])
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	end := uptime() + seconds
	eventually(t, "the server has run for some seconds", func() bool { return uptime() >= end })
}

// TestAWaiterIsQuiet: while the name is held, a waiter sends at most one script a second.
func TestAWaiterIsQuiet(t *testing.T) {
	server.Thorough(t)
	t.Parallel()
	const seconds = 5
	for name, opts := range map[string][]redisstore.Option{"set": nil, "string": {redisstore.PlainStrings()}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := server.Redis(t, server.RedisOptions{})
			take(t, opened(t, srv.Addr(), opts...), request("job"))
			waits(t, opened(t, srv.Addr(), opts...), "job")
			before := callsOf(t, srv, "evalsha")
			awaitUptime(t, srv, seconds)
			if n := callsOf(t, srv, "evalsha") - before; n > seconds+1 {
				t.Errorf("a waiter sent %d scripts in %d s", n, seconds)
			}
		})
	}
}

// TestIdleConnectionsEnd: the server ends connections that are idle for 2 s. The hold stays, and a
// waiter gets the lock without an error.
func TestIdleConnectionsEnd(t *testing.T) {
	server.Thorough(t)
	t.Parallel()
	srv := server.Redis(t, server.RedisOptions{Args: []string{"--timeout", "2"}})
	s := opened(t, srv.Addr())
	r := request("job")
	take(t, s, r)
	w := waits(t, opened(t, srv.Addr()), "job")
	awaitUptime(t, srv, 8)
	if _, err := s.Extend(t.Context(), r.Name, r.Token.Text(), r.TTL); err != nil {
		t.Errorf("the renewal: %v", err)
	}
	free(t, s, r)
	w.got()
}
