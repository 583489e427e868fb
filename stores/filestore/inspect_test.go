//go:build linux

package filestore

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/server"
)

func TestInspectTakesNothing(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	if state := inspect(t, s, "job"); len(state.Holds) != 0 || state.Name != "job" || state.Path != pathOf(s, "job") || state.Waiters != 0 {
		t.Errorf("a name nobody used: %+v", state)
	}
	if _, err := os.Stat(pathOf(s, "job")); err == nil {
		t.Error("Inspect made a file")
	}
	r := request("job", "us")
	r.Holder.Plan = time.Hour
	g := take(t, s, r)
	release(t, s, "job", "us", driver.OutcomeReleased)
	if state := inspect(t, s, "job"); len(state.Holds) != 0 || state.Fence != g.Fence {
		t.Errorf("free again: %+v", state)
	}
	take(t, s, r)
	h := inspect(t, open(t, s.Dir()), "job").Holds
	if len(h) != 1 || h[0].Holder != r.Holder || h[0].PlannedEnd.Sub(h[0].Since) != time.Hour || time.Since(h[0].Since) > time.Minute {
		t.Errorf("held: %+v", h)
	}
}

func TestHolderWithoutAName(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	take(t, s, driver.Request{Name: "job", Token: driver.TokenOf("us"), TTL: time.Minute})
	h := inspect(t, s, "job").Holds
	if len(h) != 1 || h[0].PID != os.Getpid() || h[0].Host != machine().host {
		t.Errorf("%+v", h)
	}
}

// There are more readers than records. Inspect shows all readers. For a reader without a record it
// shows only the process.
func TestManyReaders(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	const n = maxReaders + 3
	for i := range n {
		take(t, s, shared("job", strings.Repeat("r", i+1)))
	}
	h := inspect(t, s, "job").Holds
	labels := map[string]int{}
	for i := range h {
		labels[h[i].Label]++
	}
	if len(h) != n || len(labels) != maxReaders+1 || labels[""] != 3 {
		t.Errorf("%d readers: %d holds, %d labels, %d without", n, len(h), len(labels), labels[""])
	}
	for i := range n {
		release(t, s, "job", strings.Repeat("r", i+1), driver.OutcomeReleased)
	}
	take(t, s, shared("job", "later")) // records are free again
	if h := inspect(t, s, "job").Holds; len(h) != 1 || h[0].Label != "later" {
		t.Errorf("%+v", h)
	}
}

func TestList(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	for _, name := range []string{"a/free", "a/cooling", "a/held", "a/read", "b/held"} {
		take(t, s, request(name, "us"))
	}
	release(t, s, "a/free", "us", driver.OutcomeReleased)
	release(t, s, "a/read", "us", driver.OutcomeReleased)
	take(t, s, shared("a/read", "us"))
	if _, err := s.Release(patience(t), "a/cooling", "us", time.Hour); err != nil {
		t.Fatal(err)
	}
	foreign(t, s, "plain-name", syscall.LOCK_EX)
	foreign(t, s, "odd name", syscall.LOCK_SH)
	for prefix, want := range map[string]string{
		"":       "a/cooling a/held a/read b/held plain-name ?",
		"a/":     "a/cooling a/held a/read",
		"a/held": "a/held",
		"plain":  "plain-name",
		"odd":    "?",
		"odd na": "?",
		"x":      "",
	} {
		states, err := s.List(patience(t), prefix)
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]bool{}
		for _, state := range states {
			if state.Name == "" {
				state.Name = "?"
			}
			got[state.Name] = true
			if len(state.Holds) != 1 || state.Path == "" {
				t.Errorf("%+v", state)
			}
		}
		for _, name := range strings.Fields(want) {
			if !got[name] {
				t.Errorf("List(%q) has no %q: %v", prefix, name, got)
			}
			delete(got, name)
		}
		if len(got) != 0 {
			t.Errorf("List(%q) has %v too", prefix, got)
		}
	}
}

// If the kernel's list does not show the locks of all processes, Inspect and List do not report any
// name as free.
func TestCannotKnow(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	other := open(t, s.Dir())
	for _, st := range []*Store{s, other} {
		st.seen.narrow = true
	}
	take(t, s, request("job", "us"))
	if state := inspect(t, other, "job"); len(state.Holds) != 1 || state.Holds[0].Label != "us" {
		t.Errorf("what shows is known: %+v", state)
	}
	fence := take(t, s, request("free", "us")).Fence
	release(t, s, "free", "us", driver.OutcomeReleased)
	state, err := other.Inspect(patience(t), "free")
	if !errors.Is(err, errors.ErrUnsupported) || len(state.Holds) != 1 || state.Holds[0] != (driver.Hold{}) || state.Fence != fence {
		t.Errorf("%+v, %v", state, err)
	}
	states, err := other.List(patience(t), "")
	if !errors.Is(err, errors.ErrUnsupported) || len(states) != 1 || states[0].Name != "job" {
		t.Errorf("%+v, %v", states, err)
	}
}

// If the list cannot be read at all, the error of a refused try names the holder that is in the
// record.
func TestHeldWithoutTheList(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	s.seen.size, s.seen.cost, s.seen.at = 1<<20, time.Hour, time.Now() // too long to be read
	take(t, s, request("job", "us"))
	if h := refused(t, s, request("job", "them")).Holds; len(h) != 1 || h[0].Label != "us" {
		t.Errorf("%+v", h)
	}
	take(t, s, shared("read", "us"))
	if h := refused(t, s, request("read", "them")).Holds; len(h) != 1 || h[0].Label != "us" || !h[0].Shared {
		t.Errorf("%+v", h)
	}
}

// A holder that the record names counts only if it can still have the lock.
func TestClaims(t *testing.T) {
	t.Parallel()
	m := machine()
	us := owner{proc: uint64(m.pid), pidns: m.pidns, start: m.start, label: []byte("us")}
	hidden, dead := us, us
	hidden.pidns++
	dead.start++
	for what, c := range map[string]struct {
		owner  owner
		listed bool
		known  bool
	}{
		"we are alive":                 {us, false, true},
		"alive, and would be listed":   {us, true, false},
		"in another container":         {hidden, true, true},
		"a process of the same number": {dead, false, false},
	} {
		rec := record{valid: true, mode: modeExclusive, boot: m.boot, owner: c.owner}
		if h := claimed(&rec, nil, c.listed); len(h) != 1 || (h[0].Label == "us") != c.known {
			t.Errorf("%s: %+v", what, h)
		}
		rec.mode = modeShared
		readers := map[int]readerRecord{3: {valid: true, boot: m.boot, owner: c.owner}}
		if h := claimed(&rec, readers, c.listed); len(h) != 1 || (h[0].Label == "us") != c.known {
			t.Errorf("%s, shared: %+v", what, h)
		}
	}
}

func TestProcessesByTheirStart(t *testing.T) {
	t.Parallel()
	parent := os.Getppid()
	start, _, err := processStart(fmt.Sprintf("/proc/%d/stat", parent))
	if err != nil {
		t.Fatal(err)
	}
	for want, s := range map[processState]uint64{processAlive: start, processDead: start + 1} {
		if got := findProcess(parent, s); got != want {
			t.Errorf("our parent, started at %d: %v", s, got)
		}
	}
	if got := findProcess(1<<22+1, start); got != processDead {
		t.Errorf("a number that no process has: %v", got)
	}
}

// A process that has ended, and whose status nobody has asked for, holds nothing any more.
func TestZombieIsDead(t *testing.T) {
	t.Parallel()
	c := exec.Command("true")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Wait() }()
	stat := fmt.Sprintf("/proc/%d/stat", c.Process.Pid)
	start, _, err := processStart(stat)
	if err != nil {
		t.Fatal(err)
	}
	const exited, nowait = 0x4, 0x1000000 // WEXITED, WNOWAIT: it stays a zombie
	for errno := syscall.EINTR; errno == syscall.EINTR; {
		_, _, errno = syscall.Syscall6(syscall.SYS_WAITID, 1, uintptr(c.Process.Pid), 0, exited|nowait, 0, 0)
	}
	if got := findProcess(c.Process.Pid, start); got != processDead {
		t.Errorf("a zombie: %v", got)
	}
	// If only the first of its threads has ended, the process goes on.
	text, err := os.ReadFile(stat)
	if err != nil {
		t.Fatal(err)
	}
	head, fields, _ := strings.Cut(string(text), ") ")
	values := strings.Fields(fields)
	values[17] = "2"
	file := filepath.Join(t.TempDir(), "stat")
	if err := os.WriteFile(file, []byte(head+") "+strings.Join(values, " ")), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, works, err := processStart(file); got != start || !works || err != nil {
		t.Errorf("one thread of two has ended: start %d, works %v, %v", got, works, err)
	}
}

// A record that was written before the last exclusive grant counts as free, even if its reader died
// without emptying it.
func TestReadersOfAnEarlierEpoch(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	take(t, s, shared("job", "old"))
	abandon(s, "job", "old")
	take(t, s, request("job", "writer"))
	release(t, s, "job", "writer", driver.OutcomeReleased)
	foreign(t, s, "job", syscall.LOCK_SH)
	if h := inspect(t, s, "job").Holds; len(h) != 1 || !h[0].Foreign {
		t.Errorf("%+v", h)
	}
}

// A process that took the lock without padlock is foreign, even if an old record names another
// holder.
func TestOldRecordIsNotTheHolders(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	c := start(t, "hold", s.Dir(), nil)
	c.expect("fence")
	c.kill()
	foreign(t, s, "job", syscall.LOCK_EX)
	if h := refused(t, s, request("job", "us")).Holds; len(h) != 1 || !h[0].Foreign || h[0].PID != os.Getpid() {
		t.Errorf("%+v", h)
	}
}

func TestVanishedDirectoryIsNotFree(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir()+"/locks")
	if err := os.RemoveAll(s.Dir()); err != nil {
		t.Fatal(err)
	}
	_, err := s.Inspect(patience(t), "job")
	wantErr(t, err, driver.ErrUnavailable, "directory is gone")
	_, err = s.List(patience(t), "")
	wantErr(t, err, driver.ErrUnavailable, "directory is gone")
	_, err = s.Acquire(patience(t), request("job", "us"))
	wantErr(t, err, driver.ErrUnavailable, "directory is gone")
}

func TestParseLocks(t *testing.T) {
	const text = `1: POSIX  ADVISORY  WRITE 11 fe:00:131 0 EOF
2: FLOCK  ADVISORY  WRITE 12 fe:00:131 0 EOF
2: -> FLOCK  ADVISORY  WRITE 13 fe:00:131 0 EOF
3: FLOCK  ADVISORY  READ 14 fe:00:132 0 EOF
4: FLOCK  ADVISORY  READ 15 fe:00:132 0 EOF
5: FLOCK  ADVISORY  WRITE 16 00:2b:131 0 EOF
6: OFDLCK ADVISORY  WRITE -1 fe:00:131 0 EOF
7: FLOCK  ADVISORY  WRITE
`
	locks := parseLocks([]byte(text), "fe:00", 0)
	if len(locks) != 2 || len(locks[131]) != 1 || locks[131][0] != (kernelLock{12, false}) || len(locks[132]) != 2 || !locks[132][1].shared {
		t.Errorf("%+v", locks)
	}
	if d := deviceOf([]byte(text), 131, 16); d != "00:2b" {
		t.Errorf("device %q", d)
	}
}

// The kernel returns a long list in parts. It may skip a lock if other locks go away between two
// parts. List still returns every lock that exists all the time.
func TestListBesideLocksThatComeAndGo(t *testing.T) {
	server.Thorough(t)
	t.Parallel()
	const held = 300
	s := open(t, t.TempDir())
	for i := range held {
		take(t, s, request(fmt.Sprint("held", i), "us"))
	}
	stop := make(chan struct{})
	var others sync.WaitGroup
	for w := range 2 {
		others.Go(func() {
			other := open(t, t.TempDir())
			for i := 0; ; i = (i + 1) % 50 {
				select {
				case <-stop:
					return
				default:
				}
				name, token := fmt.Sprint(w, " ", i), fmt.Sprint(i)
				take(t, other, request(name, token))
				release(t, other, name, token, driver.OutcomeReleased)
			}
		})
	}
	defer others.Wait()
	defer close(stop)
	for range 30 {
		states, err := s.List(t.Context(), "held")
		if err != nil || len(states) != held {
			t.Fatalf("List tells %d of %d locks, %v", len(states), held, err)
		}
	}
}

// Two names have the same location exactly if they have the same file.
func TestLocation(t *testing.T) {
	s := open(t, t.TempDir())
	places := map[string]string{}
	for _, name := range []string{"a", "b", "A", "a b", "a  b", "a/b"} {
		place, err := s.Location(name)
		if err != nil || places[place] != "" {
			t.Errorf("%q is at %q with %q, %v", name, place, places[place], err)
		}
		places[place] = name
	}
	if _, err := s.Location(""); err == nil {
		t.Error("the empty name has a location")
	}
}
