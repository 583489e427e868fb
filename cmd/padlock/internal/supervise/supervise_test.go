//go:build unix

package supervise_test

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/padlock-go/padlock/cmd/padlock/internal/supervise"
	"github.com/padlock-go/padlock/internal/server"
)

// The supervisor is this program, started again.
func TestMain(m *testing.M) {
	if supervise.Called() {
		if n, err := strconv.Atoi(os.Getenv("END_BY")); err == nil {
			_ = syscall.Kill(os.Getpid(), syscall.Signal(n))
			select {} // until the signal arrives
		}
		supervise.Main(nil, func(int) {})
	}
	if program := os.Getenv("FRONT_OF"); program != "" {
		frontOf(program)
	}
	_ = os.Setenv("GORACE", "atexit_sleep_ms=0") // under -race it would end a second late
	os.Exit(m.Run())
}

// frontOf is a front with a program as its job, and file 3 as its lock.
func frontOf(program string) {
	lock := os.NewFile(3, "lock")
	syscall.CloseOnExec(3)
	_, err := supervise.Start(supervise.Spec{Title: "front", Path: program, Args: []string{filepath.Base(program)}, Keep: []*os.File{lock}, Lease: lasts(supervise.Forever)})
	if err != nil {
		panic(err)
	}
	select {} // until the test kills it
}

const patience = 20 * time.Second

// deaf ignores signals that ask it to end.
const deaf = `trap "" TERM; echo $$ $PPID >pids.new; mv pids.new pids; while :; do sleep 60; done`

// polite reports how it ended.
const polite = `trap "echo told >told; exit 7" TERM; echo $$ $PPID >pids.new; mv pids.new pids; while :; do sleep 0.01; done`

func start(t *testing.T, script string, change func(*supervise.Spec)) *supervise.Process {
	t.Helper()
	t.Chdir(t.TempDir())
	path, err := exec.LookPath("sh")
	if err != nil {
		t.Fatal(err)
	}
	s := supervise.Spec{Title: "test", Path: path, Args: []string{"sh", "-c", script}, Env: os.Environ(), Signal: syscall.SIGTERM, Grace: patience, Lease: lasts(supervise.Forever)}
	if change != nil {
		change(&s)
	}
	p, err := supervise.Start(s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.Kill()
		await(t, p.Gone(), "the job is gone")
	})
	if err := <-p.Started(); err != nil {
		t.Fatal(err)
	}
	return p
}

// lasts returns a lease for a Spec.
func lasts(d time.Duration) func() time.Duration { return func() time.Duration { return d } }

// refused starts a job that does not run, and returns why.
func refused(t *testing.T, s supervise.Spec) error {
	t.Helper()
	p, err := supervise.Start(s)
	if err != nil {
		t.Fatal(err)
	}
	err = <-p.Started()
	await(t, p.Gone(), "nothing is left")
	return err
}

func await(t *testing.T, c <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(patience):
		t.Fatalf("after %v still not: %s", patience, what)
	}
}

func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); <-time.After(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("after %v still not: %s", patience, what)
		}
	}
}

// pids waits until the command has written its own number and its parent's.
func pids(t *testing.T) (command, supervisor int) {
	t.Helper()
	until(t, "the command has begun", func() bool {
		text, err := os.ReadFile("pids")
		if f := strings.Fields(string(text)); err == nil {
			command, _ = strconv.Atoi(f[0])
			supervisor, _ = strconv.Atoi(f[1])
		}
		return err == nil
	})
	return command, supervisor
}

func open(c <-chan struct{}) bool {
	select {
	case <-c:
		return false
	default:
		return true
	}
}

func TestExit(t *testing.T) {
	for script, want := range map[string]int{"exit 42": 42, "kill -USR1 $$": 128 + int(syscall.SIGUSR1)} {
		p := start(t, script, nil)
		await(t, p.Gone(), "it ends")
		if got := p.Exit().Status(); got != want || !open(p.SupervisorLost()) || !open(p.Low()) {
			t.Errorf("%s: exit status %d, want %d; supervisorLost %v, low %v", script, got, want, !open(p.SupervisorLost()), !open(p.Low()))
		}
	}
}

func TestCommandThatCannotBeRun(t *testing.T) {
	for path, want := range map[string]error{filepath.Join(t.TempDir(), "missing"): fs.ErrNotExist, t.TempDir(): fs.ErrPermission} {
		err := refused(t, supervise.Spec{Path: path, Args: []string{path}, Lease: lasts(supervise.Forever)})
		if !errors.Is(err, want) || errors.Is(err, supervise.ErrStart) {
			t.Errorf("%v, want %v", err, want)
		}
	}
}

func TestEndedBeforeTheLeaseIs(t *testing.T) {
	server.Thorough(t)
	p := start(t, polite, func(s *supervise.Spec) { s.Lease, s.Grace = lasts(10*time.Second), 5*time.Second })
	await(t, p.Low(), "the lease is low")
	await(t, p.Gone(), "the job has ended")
	if got := p.Exit().Status(); got != 7 {
		t.Errorf("exit status %d, want 7", got)
	}
}

func TestKilledBeforeTheLeaseEnds(t *testing.T) {
	server.Thorough(t)
	begin := time.Now()
	const lease = 5 * time.Second // before its end the shell must have begun
	p := start(t, deaf, func(s *supervise.Spec) { s.Lease, s.Grace = lasts(lease), 100*time.Millisecond })
	await(t, p.Gone(), "the job has ended")
	if got := p.Exit().Signal; got != syscall.SIGKILL || open(p.Low()) {
		t.Errorf("ended by %v, low %v", got, !open(p.Low()))
	}
	if took := time.Since(begin); took < lease-100*time.Millisecond {
		t.Errorf("it had %v of a lease of %v", took, lease)
	}
}

func TestRenewedLease(t *testing.T) {
	p := start(t, deaf, func(s *supervise.Spec) { s.Lease, s.Grace = lasts(patience), 0 })
	p.Lease(time.Hour)
	p.Lease(time.Millisecond)
	await(t, p.Gone(), "the last word counts")
}

func TestEndAndKill(t *testing.T) {
	p := start(t, polite, nil)
	pids(t)
	p.End(patience)
	await(t, p.Gone(), "it ends on request")
	if got := p.Exit().Status(); got != 7 {
		t.Errorf("exit status %d, want 7", got)
	}
	p = start(t, deaf, nil)
	pids(t)
	p.End(time.Millisecond)
	await(t, p.Gone(), "it is killed")
	if !open(p.SupervisorLost()) {
		t.Error("the supervisor counts as killed by others")
	}
}

func TestSupervisorKilled(t *testing.T) {
	p := start(t, deaf, nil)
	_, supervisor := pids(t)
	if err := syscall.Kill(supervisor, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	await(t, p.SupervisorLost(), "that is noticed")
	await(t, p.Gone(), "the job is killed")
	if got := p.Exit().Signal; got != syscall.SIGKILL {
		t.Errorf("ended by %v", got)
	}
}

// A signal may come before the supervisor catches signals.
func TestSupervisorEndedAtItsStart(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		t.Setenv("END_BY", strconv.Itoa(int(sig)))
		err := refused(t, supervise.Spec{Path: "/bin/true", Args: []string{"true"}, Lease: lasts(supervise.Forever)})
		if killed, ok := errors.AsType[*supervise.KilledError](err); !ok || killed.Signal != sig {
			t.Errorf("%v: %v", sig, err)
		}
	}
}

// A user's environment may have the variable of the supervisor.
func TestVariableOfOthers(t *testing.T) {
	for _, value := range []string{"9", "text", " ", ""} {
		t.Setenv("PADLOCK_SUPERVISE", value)
		p := start(t, "exit 4", nil)
		await(t, p.Gone(), "it ends")
		if got := p.Exit().Status(); got != 4 {
			t.Errorf("%q: exit status %d, want 4", value, got)
		}
	}
}

// A user may start the supervisor.
func TestStartedByUser(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, value := range []string{"text", " "} {
		cmd := exec.Command(self, "supervise", "name")
		cmd.Env = append(os.Environ(), "PADLOCK_SUPERVISE="+value)
		out, err := cmd.CombinedOutput()
		if cmd.ProcessState.ExitCode() != 64 || !strings.HasPrefix(string(out), "padlock: ") {
			t.Errorf("%q: %v: %s", value, err, out)
		}
	}
}

// stopped returns when a process that got SIGSTOP has stopped.
func stopped(t *testing.T, pid int) {
	t.Helper()
	until(t, "it has stopped", func() bool {
		text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		if errors.Is(err, fs.ErrNotExist) {
			return true // there is no /proc
		}
		_, after, _ := strings.Cut(string(text), ") ")
		return strings.HasPrefix(after, "T")
	})
}

// A supervisor that continues after its deadline has not read the renewals yet. It asks before it
// ends a good job.
func TestSupervisorStoppedAndContinued(t *testing.T) {
	const lease = 300 * time.Millisecond
	t.Setenv("PATIENT", "yes") // this machine may be slow
	p := start(t, polite, func(s *supervise.Spec) { s.Lease, s.Grace = lasts(time.Minute), lease/3 })
	_, supervisor := pids(t)
	if err := syscall.Kill(supervisor, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	stopped(t, supervisor) // before it has stopped, it may read the next orders
	for end := time.Now().Add(3 * lease); time.Now().Before(end); {
		p.Lease(-lease) // a lease that is over, as after a long stop
		<-time.After(lease / 10)
	}
	if err := syscall.Kill(supervisor, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	select {
	case <-p.Asked():
	case <-p.Low():
		t.Fatal("it did not ask")
	case <-time.After(patience):
		t.Fatal("it did nothing")
	}
	p.Answer(supervise.Forever)
	p.End(patience)
	await(t, p.Gone(), "it ends on request")
	if got := p.Exit().Status(); got != 7 || !open(p.Low()) {
		t.Errorf("exit status %d, want 7; low %v", got, !open(p.Low()))
	}
}

func TestSupervisorThatHangs(t *testing.T) {
	p := start(t, deaf, nil)
	_, supervisor := pids(t)
	if err := syscall.Kill(supervisor, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	p.Kill()
	await(t, p.Gone(), "the front does its work")
	if !open(p.SupervisorLost()) {
		t.Error("it counts as killed by others")
	}
}

// A supervisor that was reaped is not killed, because another process may have its number.
func TestNoKillAfterJoin(t *testing.T) {
	if err := supervise.KillAfterJoin(); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("%v, want %v", err, os.ErrProcessDone)
	}
}

func TestKeepsTheFile(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	p := start(t, deaf, func(s *supervise.Spec) { s.Keep, s.Leave = []*os.File{w}, true }) // the job does not inherit it
	pids(t)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		_, _ = r.Read(make([]byte, 1))
	}()
	select {
	case <-closed:
		t.Fatal("nobody has the file while the job runs")
	case <-time.After(50 * time.Millisecond):
	}
	p.Kill()
	await(t, p.Gone(), "the job is gone")
	await(t, closed, "the file is closed with it")
}

func TestStoppedAndContinued(t *testing.T) {
	p := start(t, "kill -STOP $$; exit 3", nil)
	select {
	case sig := <-p.Stopped():
		if sig != syscall.SIGSTOP {
			t.Errorf("stopped by %v", sig)
		}
	case <-time.After(patience):
		t.Fatal("nobody said that it stopped")
	}
	p.Continue()
	await(t, p.Gone(), "it goes on")
	if got := p.Exit().Status(); got != 3 {
		t.Errorf("exit status %d, want 3", got)
	}
}

func TestAnyBytes(t *testing.T) {
	p := start(t, `test "$ODD" = "$(printf "\377\n\376")" && exit 4`, func(s *supervise.Spec) { s.Env = append(s.Env, "ODD=\xff\n\xfe") })
	await(t, p.Gone(), "it ends")
	if got := p.Exit().Status(); got != 4 {
		t.Errorf("exit status %d, want 4", got)
	}
}
