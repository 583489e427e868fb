//go:build linux

package main

import (
	"context"
	"crypto/tls"
	"net"

	"github.com/redis/rueidis"

	"github.com/padlock-go/padlock/lab/bench/trial"
)

// A site says where the server is, and counts the commands that a client sends. The server's INFO
// cannot be used for this count, because it also counts the commands inside of scripts.
type site struct {
	addr string
	sent *trial.Counter
}

// dial is for clients that take a dial function.
func (s site) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	// The concrete type is embedded, so that clients find all methods of a plain connection.
	return &countingConn{TCPConn: conn.(*net.TCPConn), commands: commands{sent: s.sent}}, nil
}

// rueidis returns a minimal configuration of rueidis. The buffers are smaller than the default,
// which is made for values of megabytes. With the default, hundreds of clients would need
// gigabytes.
func (s site) rueidis() rueidis.ClientOption {
	return rueidis.ClientOption{
		InitAddress:         []string{s.addr},
		ForceSingleClient:   true,
		ReadBufferEachConn:  16 << 10,
		WriteBufferEachConn: 16 << 10,
		DialCtxFn: func(ctx context.Context, addr string, _ *net.Dialer, _ *tls.Config) (net.Conn, error) {
			return s.dial(ctx, "tcp", addr)
		},
	}
}

type countingConn struct {
	*net.TCPConn
	commands commands
}

func (c *countingConn) Write(p []byte) (int, error) {
	c.commands.count(p)
	return c.TCPConn.Write(p)
}

// commands counts commands in a stream of RESP that arrives in pieces. Each command is an array
// ("*2\r\n") of strings, each with its length in front ("$3\r\nGET\r\n").
type commands struct {
	sent   *trial.Counter
	kind   byte // type of the current line
	number int  // number in the current line so far
	skip   int  // bytes of a string that are still to come
}

func (c *commands) count(p []byte) {
	n := int64(0)
	for len(p) > 0 {
		if c.skip > 0 {
			k := min(c.skip, len(p))
			c.skip -= k
			p = p[k:]
			continue
		}
		b := p[0]
		p = p[1:]
		switch {
		case b == '*' || b == '$':
			c.kind, c.number = b, 0
		case b >= '0' && b <= '9':
			c.number = c.number*10 + int(b-'0')
		case b == '\n' && c.kind == '*':
			n++
		case b == '\n':
			c.skip = c.number + len("\r\n")
		}
	}
	c.sent.Add(n)
}
