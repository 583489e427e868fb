//go:build linux

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

// resp is a connection that uses Redis' protocol without a client library. The benchmark uses it
// for its own commands, and for the rows that show how fast a lock could be at best. Only one
// goroutine may use it.
type resp struct {
	net.Conn
	in       *bufio.Reader
	deadline time.Time
}

func (s site) resp() (*resp, error) {
	conn, err := s.dial(context.Background(), "tcp", s.addr)
	if err != nil {
		return nil, err
	}
	return &resp{Conn: conn, in: bufio.NewReader(conn)}, nil
}

// do sends a command and reads its reply. See read for the types of replies.
func (r *resp) do(cmd []byte) (any, error) {
	if _, err := r.Write(cmd); err != nil {
		return nil, err
	}
	return r.read()
}

// applyDeadline makes later commands on the connection fail at the deadline of ctx. If the deadline
// has not changed, applyDeadline costs nothing. A cancelled ctx does not end a command: noticing it
// would cost time in every trial, and the trials end by a deadline.
func (r *resp) applyDeadline(ctx context.Context) error {
	d, _ := ctx.Deadline()
	if d.Equal(r.deadline) {
		return nil
	}
	r.deadline = d
	return r.SetDeadline(d)
}

// read returns a string, an int64, nil, or an []any of these.
func (r *resp) read() (any, error) {
	line, err := r.in.ReadSlice('\n')
	if err != nil {
		return nil, err
	}
	kind, text := line[0], strings.TrimSuffix(string(line[1:]), "\r\n")
	switch kind {
	case '+':
		return text, nil
	case '-':
		return nil, errors.New(text)
	case ':':
		return strconv.ParseInt(text, 10, 64)
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return nil, fmt.Errorf("a reply begins with %q", line)
	}
	switch {
	case n < 0:
		return nil, nil
	case kind == '$':
		data := make([]byte, n+len("\r\n"))
		_, err := io.ReadFull(r.in, data)
		return string(data[:n]), err
	}
	return r.readArray(n)
}

func (r *resp) readArray(n int) (any, error) {
	array := make([]any, n)
	for i := range array {
		var err error
		if array[i], err = r.read(); err != nil {
			return nil, err
		}
	}
	return array, nil
}
