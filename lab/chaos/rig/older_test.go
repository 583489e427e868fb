package rig

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/soak"
)

func TestOlderCommit(t *testing.T) {
	for _, group := range []string{"files-and-redis", "sql", "kit"} {
		if commit, err := olderCommit(olderText, group); err != nil || len(commit) != 40 {
			t.Errorf("older.txt: %s: %q, %v, want a whole commit", group, commit, err)
		}
	}
	for _, text := range []string{"# sql\n", "files aaaa\n", "sql aaaa\nsql bbbb\n"} {
		if commit, err := olderCommit(text, "sql"); err == nil {
			t.Errorf("%q: got %q, want an error", text, commit)
		}
	}
}

// A commit that the clone lacks ends the row with an error; it is never left out.
func TestOlderCommitMissing(t *testing.T) {
	if _, err := git("rev-parse", "HEAD"); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("no git, or no clone: ", err)
		}
		t.Skip("no git, or no clone: ", err)
	}
	site, err := NewSite(1)
	if err != nil {
		t.Fatal(err)
	}
	defer site.End()
	if _, err := site.buildCommit(strings.Repeat("0", 40)); err == nil || !strings.Contains(err.Error(), "fetch the whole history") {
		t.Errorf("got %v, want an error that says what to do", err)
	}
}

// After a build that failed, the next row says again why it failed.
func TestOlderBuildFailsAgain(t *testing.T) {
	dir := t.TempDir()
	for range 2 {
		err := buildSource(dir, strings.Repeat("0", 40), filepath.Join(dir, "source"), filepath.Join(dir, "chaos"))
		if err == nil || !strings.Contains(err.Error(), "archive") {
			t.Errorf("got %v, want the error of git archive", err)
		}
	}
}

// Rows with an older padlock fail if one of the versions gets no lock. In a short run over HTTP,
// the client in Go may get none.
func TestVersionsMet(t *testing.T) {
	grant := func(life int) soak.Event { return soak.Event{Op: soak.Acquired, Life: life} }
	other := soak.Event{Op: soak.Other, Life: 1}
	programs := [][]string{{"", "other"}}
	for _, c := range []struct {
		set    setup
		events []soak.Event
		met    bool
	}{
		{setup{}, nil, true},
		{setup{programs: programs}, []soak.Event{other, grant(0), grant(1)}, true},
		{setup{programs: programs}, []soak.Event{other, grant(1)}, false},
		{setup{programs: programs}, []soak.Event{other, grant(0)}, false},
		{setup{programs: programs, encoding: eitherEncoding}, []soak.Event{other, grant(1)}, true},
	} {
		if err := c.set.versionsMet(&soak.Outcome{Events: c.events}); (err == nil) != c.met {
			t.Errorf("%d programs, events %v: %v", len(c.set.programs), c.events, err)
		}
	}
}

// The rows with an older sqlstore check the order of arrival, except the one with cool-downs. The
// test adds two waiters to the events of a run, the later of which was granted first. So it does
// not depend on how busy the machine is.
func TestOlderRowsCheckOrder(t *testing.T) {
	t.Parallel()
	checked := map[string]bool{
		"PostgreSQL, older and newer padlock": true, "MariaDB, older and newer padlock": true, "SQLite, older and newer padlock": false,
	}
	rows := 0
	for _, row := range Rows() {
		want, ours := checked[row.Name]
		if !ours {
			continue
		}
		rows++
		t.Run(row.Name, func(t *testing.T) {
			t.Parallel()
			site := place(t)
			site.build = func(string) (string, error) { return "older-chaos", nil }
			set, err := row.build(site)
			if err != nil && os.Getenv("CI") != "true" {
				t.Skip(err)
			}
			if err != nil {
				t.Fatal(err)
			}
			o := Options{Workers: 1, For: time.Millisecond, Tail: time.Millisecond}
			r := o.run(&row, set)
			if ordered := r.Load.Cool == 0 && r.Load.AtLeast == 0; ordered != want {
				t.Errorf("the load: %+v", r.Load)
			}
			config := r.Stages[0][0]
			r.Stages, r.Programs = nil, nil // the worker runs in this process
			r.Open = func(ctx context.Context, _ string) (driver.Store, error) { return Open(ctx, config) }
			out, err := r.Do(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			out.Events = append(out.Events, overtaken(out.To+int64(time.Minute))...)
			found, _ := soak.Check(out)
			found = slices.DeleteFunc(found, func(v soak.Violation) bool { // a busy machine may be late
				return v.Name != overtakenName && (v.Invariant == "I5" || v.Invariant == "I6")
			})
			seen := len(found) == 1 && strings.Contains(found[0].What, "was granted first")
			if seen != want || !want && len(found) > 0 {
				t.Errorf("violations: %+v", found)
			}
		})
	}
	if rows != len(checked) {
		t.Errorf("%d of the rows exist", rows)
	}
}

const overtakenName = "overtaken"

// overtaken returns the events of two workers, after the given time. The second one came a second
// later and was granted first. A third worker may have had the name before.
func overtaken(after int64) []soak.Event {
	wait := func(worker int, hold int64, call, at time.Duration) soak.Event {
		granted := after + int64(at)
		return soak.Event{
			Op: soak.Acquired, Worker: worker, Name: overtakenName, Hold: hold, Call: after + int64(call), At: granted,
			Fence: uint64(at), TTL: int64(400 * time.Millisecond), Until: granted + int64(10*time.Millisecond), Waited: true,
		}
	}
	kept := soak.Event{
		Op: soak.Refused, Worker: 103, Name: overtakenName, Call: after, At: after + int64(2900*time.Millisecond), TTL: int64(400 * time.Millisecond), Err: "uncertain",
	}
	return []soak.Event{kept, wait(101, 1, time.Second, 3*time.Second), wait(102, 2, 2*time.Second, 2500*time.Millisecond)}
}
