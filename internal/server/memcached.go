package server

import (
	"bufio"
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Memcached starts a memcached server. args are further arguments; they override the others.
func Memcached(t testing.TB, args ...string) *Server {
	t.Helper()
	return Start(t, Spec{
		Name:    "memcached",
		Package: "memcached",
		Binary:  []string{"memcached"},
		Args: func(p Place) []string {
			return append([]string{"-u", "root", "-l", "127.0.0.1", "-p", strconv.Itoa(p.Port), "-U", "0"}, args...)
		},
		Ready: memcachedReady,
		URL:   func(p Place) string { return "memcached://" + p.Addr() },
	})
}

// memcachedReady asks the server for its version. A CLIENT_ERROR also shows that the server is
// ready: a server that requires a login answers with it.
func memcachedReady(ctx context.Context, p Place) error {
	conn, err := dial(ctx, p.Addr(), time.Second)
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := fmt.Fprint(conn, "version\r\n"); err != nil {
		return err
	}
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err == nil && !strings.HasPrefix(line, "VERSION") && !strings.HasPrefix(line, "CLIENT_ERROR") {
		return fmt.Errorf("it says %q", line)
	}
	return err
}
