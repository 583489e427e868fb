package sampler_test

import (
	"bufio"
	"os/exec"
	"testing"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/observe/sampler"
	"github.com/padlock-go/padlock/stores/filestore"
)

// flock(1) leaves no record. The kernel knows the process, and nobody knows since when.
func TestLocksOfFlock(t *testing.T) {
	store, err := filestore.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	l := padlock.New(store)
	defer l.Close(t.Context())
	s := sampler.New(l)
	k := take(t, l, "backup")
	path := row(t, sample(t, s), "backup").Path
	if err := k.Release(); err != nil || path == "" {
		t.Fatalf("path %q, %v", path, err)
	}
	if snap := sample(t, s); len(snap.Names) != 0 {
		t.Fatalf("after the release: %+v", snap.Names)
	}
	flock := exec.Command("flock", path, "sh", "-c", "echo locked; read line")
	in, err := flock.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := flock.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := flock.Start(); err != nil {
		t.Fatal(err)
	}
	defer flock.Wait()
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "locked\n" {
		t.Fatalf("flock says %q, %v", line, err)
	}
	n := row(t, sample(t, s), "backup")
	if n.State != sampler.Held || n.Grants != 1 || len(n.Holds) != 1 || !n.Holds[0].Foreign || n.Holds[0].PID == 0 || n.Holds[0].AtLeast {
		t.Errorf("flock has it since after the last sample: %+v", n)
	}
	if err := in.Close(); err != nil { // flock ends, and its lock with it
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 1)); err == nil {
		t.Error("flock goes on")
	}
	flock.Wait()
	snap := sample(t, s)
	if n, ok := s.Lookup("backup"); !ok || n.State != sampler.Free || snap.Ended[0].How != sampler.Vanished || !snap.Ended[0].Foreign {
		t.Errorf("after flock: %+v", n)
	}
}
