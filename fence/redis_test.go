package fence_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"

	"github.com/padlock-go/padlock/fence"
	"github.com/padlock-go/padlock/internal/server"
)

// redis is a small client that can call a script.
type redis struct {
	net.Conn
	*bufio.Reader
}

func (c redis) call(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(args))
	for _, a := range args {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(a), a)
	}
	if _, err := io.WriteString(c.Conn, b.String()); err != nil {
		t.Fatal(err)
	}
	line, err := c.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	line = strings.TrimSuffix(line, "\r\n")
	if line[0] == '-' {
		return "", errors.New(line)
	}
	if line[0] != '$' {
		return line[1:], nil
	}
	n, err := strconv.Atoi(line[1:])
	if err != nil || n < 0 {
		t.Fatalf("%q", line)
	}
	body := make([]byte, n+2)
	if _, err := io.ReadFull(c.Reader, body); err != nil {
		t.Fatal(err)
	}
	return string(body[:n]), nil
}

func TestRedisHash(t *testing.T) {
	t.Parallel()
	srv := server.Redis(t, server.RedisOptions{})
	conn, err := net.Dial("tcp", srv.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	c := redis{conn, bufio.NewReader(conn)}
	set := func(f uint64, fields ...string) error {
		reply, err := c.call(t, append([]string{"EVAL", fence.RedisHash(), "1", "invoice:7", strconv.FormatUint(f, 10)}, fields...)...)
		if err != nil {
			return err
		}
		return fence.RedisReply(f, reply)
	}
	const f = 1_763_600_000_123_456
	for i, test := range []struct {
		fence uint64
		seen  uint64 // the greater fence of the hash, if it refuses the write
	}{{f, 0}, {f, 0}, {f + 1, 0}, {f, f + 1}, {1<<53 - 1, 0}, {1<<53 - 2, 1<<53 - 1}} {
		err := set(test.fence, "state", strconv.Itoa(i), "by", "me")
		state, _ := c.call(t, "HGET", "invoice:7", "state")
		if test.seen != 0 {
			wantStale(t, err, "", test.fence, test.seen)
		} else if err != nil {
			t.Error(err)
		}
		if (state == strconv.Itoa(i)) != (test.seen == 0) {
			t.Errorf("fence %d: %v, state %s", test.fence, err, state)
		}
	}
	for _, bad := range []string{"0", "-1", "1.5", "x", "", "9007199254740992", "nan", "inf", "1e15", "0x7fffffffffff", " 9007199254740991", "9007199254740991.0"} {
		if reply, err := c.call(t, "EVAL", fence.RedisHash(), "1", "invoice:7", bad, "state", "bad"); err == nil {
			t.Errorf("fence %q: %s", bad, reply)
		}
	}
	if reply, err := c.call(t, "EVAL", fence.RedisHash(), "1", "invoice:8", "7", "state", "paid", "by"); err == nil {
		t.Errorf("a field without a value: %s", reply)
	}
	if n, err := c.call(t, "EXISTS", "invoice:8"); n != "0" || err != nil {
		t.Errorf("a field without a value: the fields before it were set (%s, %v)", n, err)
	}
	if err := fence.RedisReply(f, "no number"); !errors.Is(err, fence.ErrMalformed) {
		t.Error(err)
	}
}
