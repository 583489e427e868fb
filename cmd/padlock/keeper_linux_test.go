package main

import (
	"context"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/open"
)

// failing reports the connections that it could not accept.
type failing struct {
	net.Listener
	failed chan error
}

func (f *failing) Accept() (net.Conn, error) {
	conn, err := f.Listener.Accept()
	if err != nil {
		select {
		case f.failed <- err:
		default:
		}
	}
	return conn, err
}

// A keeper that could not accept a connection, because too many files were open, answers later.
func TestKeeperAcceptsAgain(t *testing.T) {
	store, err := open.Store(t.Context(), "memory:")
	if err != nil {
		t.Fatal(err)
	}
	l := padlock.New(store)
	defer l.Close(context.Background())
	lock, err := l.TryAcquire(t.Context(), "deploy")
	if err != nil {
		t.Fatal(err)
	}
	const token = keeperToken + "that-accepts-again"
	socket, err := net.Listen("unix", socketOf(token))
	if err != nil {
		t.Fatal(err)
	}
	waiting, err := net.Dial("unix", socketOf(token))
	if err != nil {
		t.Fatal(err)
	}
	defer waiting.Close()
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: 3, Max: limit.Max}); err != nil {
		t.Fatal(err)
	}
	listener, signals, ended := &failing{socket, make(chan error, 1)}, make(chan os.Signal, 1), make(chan struct{})
	go func() {
		defer close(ended)
		serveKeeper(lock, token, time.Hour, listener, signals)
	}()
	failure := <-listener.failed
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	if failure == nil {
		t.Fatal("there was no failure")
	}
	key, err := padlock.KeyFor("deploy", token)
	if err != nil {
		t.Fatal(err)
	}
	if answer, err := new(app).askKeeper(key, "extended", keeping{Extend: time.Hour}); err != nil || answer.Lost {
		t.Errorf("after %v, the keeper answers %+v, %v", failure, answer, err)
	}
	socket.Close()
	signals <- os.Interrupt
	<-ended
}

// Every user of the machine can connect to a keeper. A request without end is cut off.
func TestKeeperReadsShortRequests(t *testing.T) {
	store, err := open.Store(t.Context(), "memory:")
	if err != nil {
		t.Fatal(err)
	}
	l := padlock.New(store)
	defer l.Close(context.Background())
	lock, err := l.TryAcquire(t.Context(), "deploy")
	if err != nil {
		t.Fatal(err)
	}
	const token = keeperToken + "that-reads-little"
	socket, err := net.Listen("unix", socketOf(token))
	if err != nil {
		t.Fatal(err)
	}
	signals, ended := make(chan os.Signal, 1), make(chan struct{})
	go func() {
		defer close(ended)
		serveKeeper(lock, token, time.Hour, socket, signals)
	}()
	conn, err := net.Dial("unix", socketOf(token))
	if err != nil {
		t.Fatal(err)
	}
	sent, block := 0, []byte(strings.Repeat("x", 1<<16))
	for err = error(nil); err == nil && sent < 1<<26; sent += len(block) {
		if sent == 0 {
			block[0] = '"' // a text of JSON begins
		} else {
			block[0] = 'x'
		}
		_, err = conn.Write(block)
	}
	if err == nil {
		t.Errorf("a keeper read %d bytes of a request", sent)
	}
	conn.Close()
	socket.Close()
	signals <- os.Interrupt
	<-ended
}
