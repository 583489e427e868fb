package server

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"
)

func TestMissingProgram(t *testing.T) {
	spec := Spec{Name: "nonesuch", Package: "nonesuch-server", Binary: []string{"padlock-nonesuch", "/nowhere/*/nonesuch"}}
	for ci, wantFailed := range map[string]bool{"": false, "1": false, "true": true} {
		t.Setenv("CI", ci)
		fake := inside(t, func(t testing.TB) { Start(t, spec) })
		if fake.failed != wantFailed || fake.skipped == wantFailed {
			t.Errorf("CI=%q: failed %v, skipped %v", ci, fake.failed, fake.skipped)
		}
		for _, want := range []string{"padlock-nonesuch", "nonesuch-server", "make test"} {
			if !strings.Contains(fake.said, want) {
				t.Errorf("CI=%q: the reason lacks %q: %s", ci, want, fake.said)
			}
		}
	}
}

// shell describes a server that is really a shell script.
func shell(script string) Spec {
	return Spec{
		Name:   "shell",
		Binary: []string{"sh"},
		Args:   func(Place) []string { return []string{"-c", script} },
		Ready:  func(context.Context, Place) error { return errors.New("not a server") },
	}
}

func TestEarlyEndIsReported(t *testing.T) {
	spec := shell("echo the disk is on fire; exit 3")
	fake := inside(t, func(t testing.TB) { Start(t, spec) })
	if !fake.failed {
		t.Fatal("a server that ends at once counts as started")
	}
	for _, want := range []string{"exit status 3", "the disk is on fire"} {
		if !strings.Contains(fake.said, want) {
			t.Errorf("the report lacks %q: %s", want, fake.said)
		}
	}
}

func TestNeverReadyEnds(t *testing.T) {
	spec := shell("echo started; exec sleep 60")
	spec.Timeout = 50 * time.Millisecond
	fake := inside(t, func(t testing.TB) { Start(t, spec) })
	if !fake.failed || !strings.Contains(fake.said, "not ready within 50ms: not a server") {
		t.Errorf("failed %v: %s", fake.failed, fake.said)
	}
}

func TestFailedTestShowsTheLog(t *testing.T) {
	spec := shell("seq 1000 1099; echo hello from within; exec sleep 60")
	var s *Server
	spec.Ready = func(context.Context, Place) error {
		if s == nil || !strings.Contains(s.Log(), "hello") {
			return errors.New("nothing said so far")
		}
		return nil
	}
	fake := inside(t, func(t testing.TB) {
		s = &Server{t: t, spec: spec}
		t.Cleanup(s.clean)
		binary, _ := spec.find()
		if err := s.begin(binary); err != nil {
			t.Errorf("%v", err)
		}
		t.Errorf("some expectation fails")
	})
	if !strings.Contains(fake.said, "hello from within") || !strings.Contains(fake.said, "shell, which was running, said") {
		t.Errorf("the server's output is not shown: %s", fake.said)
	}
	if strings.Contains(fake.said, "1079") || !strings.Contains(fake.said, "(81 lines before)\n1081\n") {
		t.Errorf("not the last lines are shown: %s", fake.said)
	}
}

// A server that ended before its test did is often the reason why the test fails, so the log tells
// how it ended.
func TestFailedTestShowsHowTheServerEnded(t *testing.T) {
	spec := shell("exec sleep 60")
	spec.Ready = func(context.Context, Place) error { return nil }
	fake := inside(t, func(t testing.TB) {
		s := Start(t, spec)
		_ = s.proc.cmd.Process.Kill() // as somebody else may do
		<-s.proc.done
		t.Errorf("some expectation fails")
	})
	if !strings.Contains(fake.said, "shell, which had ended (signal: killed), said") {
		t.Errorf("it is not shown how the server ended: %s", fake.said)
	}
}

// A PgBouncer that refuses a client says why in its log.
func TestPgBouncerHasALog(t *testing.T) {
	pooler := PgBouncer(t, Postgres(t, PostgresOptions{}), "transaction")
	if !strings.Contains(pooler.Log(), "process up") {
		t.Errorf("the log is %q", pooler.Log())
	}
}

func TestKilledOrNotStartedServersRefuseSignals(t *testing.T) {
	for what, change := range map[string]func(*Server){"pause": (*Server).Pause, "resume": (*Server).Resume} {
		fake := inside(t, func(t testing.TB) {
			spec := shell("exec sleep 60")
			spec.Ready = func(context.Context, Place) error { return nil }
			s := Start(t, spec)
			s.Kill()
			s.Kill() // a second Kill does no harm
			change(s)
		})
		if want := "cannot " + what + " shell: it does not run"; !strings.Contains(fake.said, want) {
			t.Errorf("want %q, got %s", want, fake.said)
		}
	}
}

func TestReservedPortsDiffer(t *testing.T) {
	seen := map[int]bool{}
	for range 50 {
		r, err := reserve()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = r.release() })
		if seen[r.port] {
			t.Errorf("port %d was given twice", r.port)
		}
		seen[r.port] = true
		if again, err := reservePort(r.port); err == nil {
			_ = again.release()
			t.Errorf("port %d can be reserved twice", r.port)
		}
	}
}
