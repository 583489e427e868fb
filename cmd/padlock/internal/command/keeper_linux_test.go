package command

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/open"
	"github.com/padlock-go/padlock/padlocktest"
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

// keeperOf returns the socket of a keeper with a token, and a function that starts the keeper at a
// listener. The keeper holds the lock "deploy" until the function end is called.
func keeperOf(t *testing.T, token string) (socket net.Listener, start func(net.Listener), end func()) {
	t.Helper()
	l, _ := padlocktest.New(t)
	return keeperAt(t, l, token)
}

// keeperAt is keeperOf for the store of l.
func keeperAt(t *testing.T, l *padlock.Locker, token string) (socket net.Listener, start func(net.Listener), end func()) {
	t.Helper()
	lock, err := l.TryAcquire(t.Context(), "deploy")
	if err != nil {
		t.Fatal(err)
	}
	if socket, err = net.Listen("unix", socketOf(token)); err != nil {
		t.Fatal(err)
	}
	signalled, ended := make(chan struct{}), make(chan struct{})
	start = func(listener net.Listener) {
		go func() {
			defer close(ended)
			serveKeeper(lock, l.Guarantees(), token, time.Hour, listener, signalled)
		}()
	}
	return socket, start, func() {
		socket.Close()
		close(signalled)
		<-ended
	}
}

// A keeper that could not accept a connection, because too many files were open, answers later.
func TestKeeperAcceptsAgain(t *testing.T) {
	const token = keeperToken + "that-accepts-again"
	socket, start, end := keeperOf(t, token)
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
	listener := &failing{socket, make(chan error, 1)}
	start(listener)
	failure := <-listener.failed
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	if failure == nil {
		t.Fatal("there was no failure")
	}
	key, err := padlock.KeyFor("deploy", token, padlock.ModeExclusive)
	if err != nil {
		t.Fatal(err)
	}
	if answer, err := new(app).askKeeper(key, "extended", keeping{Extend: time.Hour}); err != nil || answer.Lost {
		t.Errorf("after %v, the keeper answers %+v, %v", failure, answer, err)
	}
	end()
}

// If the store does not answer the keeper, it is not known whether the lock is held. It is not lost
// for that reason, and the keeper holds it.
func TestKeeperCannotReachTheStore(t *testing.T) {
	l, script := padlocktest.New(t)
	const token = keeperToken + "without-the-store"
	socket, start, end := keeperAt(t, l, token)
	start(socket)
	defer end()
	key, err := padlock.KeyFor("deploy", token, padlock.ModeExclusive)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		request padlocktest.Request
		deed    string
		ask     keeping
		err     error
		status  int
	}{
		{padlocktest.Extend, "extended", keeping{Extend: time.Hour}, driver.ErrUnavailable, exitUnavailable},
		{padlocktest.Extend, "extended", keeping{Extend: time.Hour}, nil, 0},
		{padlocktest.Release, "released", keeping{}, driver.ErrUnavailable, exitUnavailable},
	} {
		script.Heal()
		if c.err != nil {
			script.Fail(c.request, padlocktest.Always, c.err)
		}
		_, err := (&app{storeURL: "memory:"}).askKeeper(key, c.deed, c.ask)
		status, why := 0, (*failure)(nil)
		if errors.As(err, &why) {
			status = why.status
		}
		if status != c.status {
			t.Errorf("%s with the error %v of the store: %v, status %d, want %d", c.deed, c.err, err, status, c.status)
		}
	}
}

// Every user of the machine can connect to a keeper. A request without end is cut off.
func TestKeeperReadsShortRequests(t *testing.T) {
	const token = keeperToken + "that-reads-little"
	socket, start, end := keeperOf(t, token)
	start(socket)
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
	end()
}

// A signal ends a keeper whose key was not written yet, for example because acquire is stopped. The
// lock is free afterwards.
func TestKeeperEndsWithoutItsCaller(t *testing.T) {
	url := "file://" + t.TempDir()
	caller, orders := net.Pipe() // acquire never says that the key is written
	defer caller.Close()
	answers, out := io.Pipe()
	keeper, ended := &app{storeURL: url, stdout: out}, make(chan error, 1)
	order := &keepOrder{Name: []byte("deploy"), TTL: time.Hour}
	go func() { ended <- keeper.holdForCaller(context.Background(), order, bufio.NewReader(orders)) }()
	var reply keepReply
	if err := json.NewDecoder(answers).Decode(&reply); err != nil || reply.Status != 0 {
		t.Fatalf("the keeper answers %+v, %v", reply, err)
	}
	if err := syscall.Kill(os.Getpid(), syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	store, err := open.Store(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	l := padlock.New(store)
	defer l.Close(context.Background())
	if _, err := l.TryAcquire(t.Context(), "deploy"); err != nil {
		t.Errorf("the keeper has ended, but: %v", err)
	}
}
