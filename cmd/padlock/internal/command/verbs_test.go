package command

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/cmd/padlock/internal/doctor"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/driver/fast"
	"github.com/padlock-go/padlock/open"
)

// kept is a store in memory that several verbs open and close, one after the other.
type kept struct {
	driver.Store
	driver.Admin
	lists   bool
	inspect func() error
	release func() (driver.Outcome, error)
}

func (k kept) Release(ctx context.Context, name, token string, keep time.Duration) (driver.Outcome, error) {
	if k.release != nil {
		return k.release()
	}
	return k.Store.Release(ctx, name, token, keep)
}

func (k kept) Close() error { return nil }

func (k kept) List(ctx context.Context, prefix string) ([]driver.State, error) {
	if !k.lists {
		return nil, errors.ErrUnsupported
	}
	return k.Admin.List(ctx, prefix)
}

func (k kept) Guarantees() driver.Guarantees {
	g := k.Store.Guarantees()
	if !k.lists {
		g.Lacks |= driver.AbilityList
	}
	return g
}

func (k kept) Inspect(ctx context.Context, name string) (driver.State, error) {
	if k.inspect != nil {
		if err := k.inspect(); err != nil {
			return driver.State{}, err
		}
	}
	return k.Admin.Inspect(ctx, name)
}

// inMemory returns a store in memory, which is closed at the end of the test.
func inMemory(t *testing.T) kept {
	t.Helper()
	s, err := open.Store(t.Context(), "memory:")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return kept{Store: s, Admin: s.(driver.Admin)}
}

// opening returns a program whose verbs open s.
func opening(s padlock.Store) *program {
	p := whole()
	p.openStore = func(context.Context, string, ...open.Option) (padlock.Store, error) { return s, nil }
	return p
}

// break asks a person, and only the whole word yes is a yes.
func TestBreakAsks(t *testing.T) {
	t.Parallel()
	store := inMemory(t)
	p := opening(store)
	l := padlock.New(store)
	lock, err := l.Acquire(t.Context(), "deploy", padlock.NoRenewal(), padlock.Label("who"))
	if err != nil {
		t.Fatal(err)
	}
	for _, answer := range []bool{false, true} {
		var out bytes.Buffer
		a := &app{program: p, stdout: &out, stderr: &out}
		var asked string
		err := a.breakLock(t.Context(), &breaking{slot: -1, question: func(text string) bool { asked = text; return answer }}, "deploy")
		if !strings.Contains(asked, "deploy is held by") || !strings.Contains(asked, "(who)") || !strings.Contains(asked, "fence:") {
			t.Errorf("asked was %q", asked)
		}
		var f *failure
		if answer && err != nil || !answer && (!errors.As(err, &f) || f.status != 1 || f.note.Message != "nothing was broken") {
			t.Errorf("answer %v: %v", answer, err)
		}
		if err := lock.Check(t.Context()); errors.Is(err, padlock.ErrLost) != answer {
			t.Errorf("answer %v: Check returned %v", answer, err)
		}
	}
}

func TestOnlyAWholeYesIsOne(t *testing.T) {
	t.Parallel()
	for answer, want := range map[string]bool{"yes\n": true, " yes ": true, "": false, "y\n": false, "no\n": false, "yes please\n": false, "\nyes\n": false} {
		var out strings.Builder
		if got := asker(strings.NewReader(answer), &out)("really? "); got != want || out.String() != "really? " {
			t.Errorf("%q is %v, after %q", answer, got, out.String())
		}
	}
}

// partial is a store that cannot list all names.
type partial struct {
	kept
	err   error // the error of List; nil means that List does not reply in time
	known []driver.State
}

func (p *partial) Guarantees() driver.Guarantees { return p.Store.Guarantees() }

func (p *partial) List(ctx context.Context, _ string) ([]driver.State, error) {
	if p.err != nil {
		return p.known, p.err
	}
	<-ctx.Done()
	return nil, ctx.Err()
}

// ls prints the locks that the store knows, and then says that there may be more.
func TestListThatIsIncomplete(t *testing.T) {
	t.Parallel()
	why := fmt.Errorf("%w: locks of another container", errors.ErrUnsupported)
	job := []driver.State{{Name: "job", Holds: []driver.Hold{{Holder: driver.Holder{Host: "web-3", PID: 1}}}}}
	for _, c := range []struct {
		known []driver.State
		err   error
		json  bool
		want  string
		said  string
	}{
		{job, why, false, "web-3:1", "may have more locks than these: unsupported operation: locks of another container"},
		{job, why, true, `{"name":"job","held":true`, "may have more locks than these"},
		{job, padlock.ErrUnavailable, false, "web-3:1", "may have more locks than these"},
		{nil, why, false, "", "cannot tell who holds a lock: unsupported operation: locks of another container"},
	} {
		p := opening(&partial{inMemory(t), c.err, c.known})
		var out bytes.Buffer
		a := &app{program: p, stdout: &out, stderr: io.Discard, json: c.json}
		var f *failure
		if err := a.list(t.Context(), "", ""); !errors.As(err, &f) || f.status != exitUnavailable || !strings.Contains(f.Error(), c.said) {
			t.Errorf("%+v: %v", c, err)
		}
		if got := out.String(); !strings.Contains(got, c.want) || c.want == "" && got != "" {
			t.Errorf("%+v: it prints %q", c, got)
		}
	}
}

// A held lock whose name looks like that of a slot is not free for status and break.
func TestStatusOfNamesThatLookLikeSlots(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"job#3", fast.SlotName("job", 3), fast.SlotGate("job", 3)} {
		store := inMemory(t)
		p := opening(store)
		if _, err := padlock.New(store).Acquire(t.Context(), name, padlock.NoRenewal()); err != nil {
			t.Fatal(err)
		}
		a := &app{program: p, stdout: io.Discard, stderr: io.Discard}
		if err := a.showStatus(t.Context(), 0, name); err != nil || a.status != exitHeld {
			t.Errorf("status %q: %d, %v", name, a.status, err)
		}
		var f *failure
		if err := a.breakLock(t.Context(), &breaking{slot: -1}, name); !errors.As(err, &f) || f.status != exitUsage || !strings.Contains(f.Error(), "there is no terminal to ask on") {
			t.Errorf("break %q: %v", name, err)
		}
	}
}

// status says so if it cannot list all slots of the name. Its exit status is about the lock.
func TestSlotsThatAreNotListed(t *testing.T) {
	t.Parallel()
	slot := []driver.State{{Name: fast.SlotName("job", 1), Holds: []driver.Hold{{Holder: driver.Holder{Host: "web-3", PID: 1}}}}}
	for _, c := range []struct {
		store *partial
		want  []string
	}{
		{&partial{}, []string{"job is free", "there may be more slots: the store could not list them within 300ms; padlock status --slots N job"}},
		{&partial{err: padlock.ErrUnavailable, known: slot}, []string{"slot 1 is held by web-3:1", "there may be more slots: store is unavailable;"}},
		{&partial{err: errors.ErrUnsupported}, []string{"job is free"}},
	} {
		synctest.Test(t, func(t *testing.T) {
			c.store.kept = inMemory(t)
			p := opening(c.store)
			p.slotPatience = small("").slotPatience
			for _, json := range []bool{false, true} {
				var out bytes.Buffer
				a := &app{program: p, stdout: &out, stderr: io.Discard, json: json}
				if err := a.showStatus(t.Context(), 0, "job"); err != nil || a.status != 0 {
					t.Errorf("%+v: status %d, %v", c.store, a.status, err)
				}
				got, said := out.String(), len(c.want) > 1
				for _, want := range c.want {
					if !json && !strings.Contains(got, want) {
						t.Errorf("it prints %q, want %q", got, want)
					}
				}
				if strings.Contains(got, "there may be more") != (said && !json) || strings.Contains(got, "slots_unknown") != (said && json) {
					t.Errorf("it prints %q", got)
				}
			}
		})
	}
}

// While a server that has restarted grants no locks, status shows the holder of a name and says
// that new locks are refused. It does not speak of slots, because the name may have none.
func TestStatusDuringTheRestartGuard(t *testing.T) {
	t.Parallel()
	store := &partial{kept: inMemory(t), err: fmt.Errorf("%w: the server has restarted (restart guard)", padlock.ErrUnavailable)}
	p := opening(store)
	l := padlock.New(store)
	if _, err := l.Acquire(t.Context(), "long", padlock.NoRenewal(), padlock.Label("who")); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	a := &app{program: p, stdout: &out, stderr: io.Discard}
	if err := a.showStatus(t.Context(), 0, "long"); err != nil || a.status != exitHeld {
		t.Errorf("status %d, %v", a.status, err)
	}
	if got := out.String(); !strings.Contains(got, "long is held by") || strings.Contains(got, "slot") ||
		!strings.Contains(got, "\n  new locks are refused: the server has restarted (restart guard)\n") {
		t.Errorf("it prints %q", got)
	}
}

// Unknown findings count in the exit status, accepted ones do not.
func TestExitStatusOfDoctor(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		state  doctor.State
		accept string
		want   int
		told   string
	}{
		{doctor.Good, "", 0, "1 good, 0 problems, 0 unknown, 0 accepted"},
		{doctor.Problem, "", 1, "PROBLEM   clock"},
		{doctor.Unknown, "", 1, "unknown   clock"},
		{doctor.Unknown, "clock", 0, "accepted  clock"},
		{doctor.Problem, "drift", 1, "0 good, 1 problem, 0 unknown"},
	} {
		var out strings.Builder
		a := &app{stdout: &out}
		err := a.tellFindings([]doctor.Finding{{Check: "clock", Of: "store", State: c.state, Seen: "bell \a"}}, []string{c.accept})
		if err != nil || a.status != c.want || !strings.Contains(out.String(), c.told) || !strings.Contains(out.String(), `bell \a`) {
			t.Errorf("%s, accepted %q: status %d, %v:\n%s", c.state, c.accept, a.status, err, out.String())
		}
	}
}

// The next holder may write its key to the same file as soon as the lock is released, and that key
// stays. A key that may still be valid also stays.
func TestReleaseLeavesTheKeyFile(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		next    string // what the next holder writes
		outcome driver.Outcome
		err     error
		want    string
	}{
		{"next", driver.OutcomeReleased, nil, "next"},
		{"", driver.OutcomeReleased, nil, "mine"},
		{"", driver.OutcomeGone, driver.ErrUncertain, "mine"},
	} {
		file := filepath.Join(t.TempDir(), "key")
		store := inMemory(t)
		store.release = func() (driver.Outcome, error) {
			if c.next != "" {
				if err := os.WriteFile(file, []byte(c.next), 0o600); err != nil {
					t.Error(err)
				}
			}
			return c.outcome, c.err
		}
		p := opening(store)
		l := padlock.New(store)
		lock, err := l.Acquire(t.Context(), "deploy")
		if err != nil {
			t.Fatal(err)
		}
		mine, err := exported(lock)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(mine), 0o600); err != nil {
			t.Fatal(err)
		}
		a := &app{program: p, stdout: io.Discard, stderr: io.Discard}
		if err := a.release(t.Context(), file, seconds{}); (err == nil) != (c.outcome == driver.OutcomeReleased) {
			t.Errorf("%+v: %v", c, err)
		}
		text, _ := os.ReadFile(file)
		if got := string(text); got != strings.ReplaceAll(c.want, "mine", mine) {
			t.Errorf("%+v: the file holds %q", c, got)
		}
	}
}

// Each verb reports the answers of a store in its own words.
func TestUnsuccessful(t *testing.T) {
	t.Setenv("PADLOCK_STORE", "redis://:canary@db7")
	a := &app{program: whole()}
	for _, c := range []struct {
		err    error
		deed   string
		status int
		want   string
	}{
		{padlock.ErrLost, "extended", exitLost, "x was not extended: the lock is lost, and somebody else may have it"},
		{padlock.ErrExpired, "released", exitLost, "x was not released: the lock is lost, because its lease had run out; nobody else took it"},
		{errors.Join(padlock.ErrUncertain, padlock.ErrLost), "released", exitUnavailable, "it is unknown whether x was released at the store redis://db7"},
		{padlock.ErrUncertain, "taken", exitUnavailable, "if it was, it ends with its lease"},
		{padlock.ErrUnavailable, "extended", exitUnavailable, "the store redis://db7 cannot be used"},
		{padlock.ErrInvalid, "extended", exitUsage, "invalid parameter"},
		{errors.New("a pig flew by"), "extended", exitUnavailable, "the store redis://db7 failed: a pig flew by"},
	} {
		f := a.unsuccessful("x", c.deed, c.err)
		if f.status != c.status || !strings.Contains(f.Error(), c.want) || strings.Contains(f.Error(), "canary") {
			t.Errorf("%v, %s: %d, %q; want %d, %q", c.err, c.deed, f.status, f.Error(), c.status, c.want)
		}
	}
}
