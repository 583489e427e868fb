//go:build clientgo

package leasestore_test

import (
	"bufio"
	"net/http/httptest"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/internal/safety"
	"github.com/padlock-go/padlock/internal/server/fakes"
	"github.com/padlock-go/padlock/stores/leasestore"
)

// startCandidate starts a process with the leader election of client-go. says gets what it prints.
func startCandidate(t *testing.T, server string) (p *exec.Cmd, says <-chan string) {
	t.Helper()
	p = exec.Command(os.Getenv("CANDIDATE"), server, "pod-9_4711")
	p.Stderr = os.Stderr
	out, err := p.StdoutPipe()
	if err == nil {
		err = p.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Process.Kill() })
	lines := make(chan string, 10)
	go func() {
		defer close(lines)
		for s := bufio.NewScanner(out); s.Scan(); {
			lines <- s.Text()
		}
		p.Wait()
	}()
	return p, lines
}

// heard reports whether the process says something within a time.
func heard(says <-chan string, what string, within time.Duration) bool {
	select {
	case line := <-says:
		return line == what
	case <-time.After(within):
		return what == ""
	}
}

// The leader election of client-go and padlock share a name, both ways. See make
// test-leaderelection.
func TestClientGo(t *testing.T) {
	server := httptest.NewServer(fakes.NewKubernetes())
	defer server.CloseClientConnections()
	store, err := leasestore.Open(t.Context(), leasestore.Config{Namespace: "shop", Endpoint: server.URL, LeaderElection: true})
	if err != nil {
		t.Fatal(err)
	}
	locker := padlock.New(store, padlock.TTL(12*time.Second))
	defer locker.Close(t.Context())
	lock, err := locker.Acquire(t.Context(), "deploy")
	if err != nil {
		t.Fatal(err)
	}
	p, says := startCandidate(t, server.URL)
	if !heard(says, "", 20*time.Second) {
		safety.TwoHold(t, "client-go leads while padlock holds")
		t.FailNow()
	}
	if err := lock.Release(); err != nil {
		t.Fatal(err)
	}
	if !heard(says, "leads", 10*time.Second) {
		t.Fatal("client-go does not lead after the release")
	}
	if _, err := locker.Acquire(t.Context(), "deploy", padlock.Wait(20*time.Second)); err == nil {
		safety.TwoHold(t, "padlock holds while client-go leads")
		t.FailNow()
	}
	start := time.Now()
	p.Process.Signal(syscall.SIGTERM)
	again, err := locker.Acquire(t.Context(), "deploy", padlock.Wait(20*time.Second))
	if err != nil || !safety.Rises(t, again.Fence(), lock.Fence()) {
		t.Fatalf("after client-go has released: %v, fence %v, before %d", err, again, lock.Fence())
	}
	t.Logf("padlock has the lock %v after the release by client-go", time.Since(start))
	if err := again.Release(); err != nil {
		t.Fatal(err)
	}

	dead, deadSays := startCandidate(t, server.URL)
	if !heard(deadSays, "leads", 10*time.Second) {
		t.Fatal("the second candidate does not lead")
	}
	dead.Process.Kill()
	start = time.Now()
	last, err := locker.Acquire(t.Context(), "deploy", padlock.Wait(30*time.Second))
	if err != nil || time.Since(start) < 5*time.Second {
		t.Fatalf("after the death of client-go: %v, after %v", err, time.Since(start))
	}
	if err := last.Release(); err != nil {
		t.Fatal(err)
	}
}
