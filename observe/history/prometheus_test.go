package history_test

import (
	"bytes"
	"cmp"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/padlock-go/padlock/observe/history"
)

func TestMetrics(t *testing.T) {
	t.Parallel()
	l := history.Open(t.TempDir(), "", nil)
	put(t, l, run("good", 1, 0), run("good", 2, 3), skipped("good", 3), run("bad", 1, 1), skipped("new", 9))
	open := run("good", 4, 0)
	open.End = time.Time{}
	put(t, l, open, run("odd\x1b\"\\\n\xff", 1, 0), run("other", 1, 0))
	var page bytes.Buffer
	write := func(prefix string) {
		jobs, err := l.Jobs(t.Context(), prefix, history.Filter{}, nil)
		if err = cmp.Or(err, history.WriteMetrics(&page, jobs)); err != nil {
			t.Fatal(err)
		}
	}
	write("")
	at := func(n int, after float64) string {
		return fmt.Sprint(int64(float64(noon.Add(time.Duration(n)*time.Minute).Unix()) + after))
	}
	for _, line := range []string{
		`padlock_run_last_success_timestamp_seconds{name="good"} ` + at(1, 10),
		`padlock_run_last_failure_timestamp_seconds{name="good"} ` + at(2, 10),
		`padlock_run_last_start_timestamp_seconds{name="good"} ` + at(4, 0),
		`padlock_run_last_skipped_timestamp_seconds{name="good"} ` + at(3, 0),
		`padlock_run_last_success_duration_seconds{name="good"} 10`,
		`padlock_run_last_failure_timestamp_seconds{name="bad"} ` + at(1, 10),
		`padlock_run_last_skipped_timestamp_seconds{name="new"} ` + at(9, 0),
		`padlock_run_last_success_timestamp_seconds{name="odd\\x1b\"\\\\\\n\\xff"} ` + at(1, 10),
	} {
		if !strings.Contains(page.String(), "\n"+line+"\n") {
			t.Errorf("%s is missing", line)
		}
	}
	for _, wrong := range []string{`success_timestamp_seconds{name="bad"}`, `start_timestamp_seconds{name="new"}`, "\x1b"} {
		if strings.Contains(page.String(), wrong) {
			t.Errorf("%q is there", wrong)
		}
	}
	promtool(t, page.String(), "check", "metrics")
	if t.Failed() {
		t.Log(page.String())
	}
	page.Reset()
	if write("oth"); strings.Contains(page.String(), "good") || !strings.Contains(page.String(), "other") {
		t.Errorf("with a prefix:\n%s", page.String())
	}
}

// The number of names is bounded. If two names look alike in the output, no label appears twice.
func TestMetricsAreBounded(t *testing.T) {
	t.Parallel()
	var all []history.Job
	for i := range history.MaxMetricNames + 5 {
		r := run(fmt.Sprint("name", i), i, 0)
		all = append(all, history.Job{Summary: history.Summary{Name: r.Name, Last: &r, LastSuccess: &r}})
	}
	var page bytes.Buffer
	if err := history.WriteMetrics(&page, all); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(page.String(), "padlock_run_last_success_timestamp_seconds{"); n != history.MaxMetricNames || strings.Contains(page.String(), `"name4"`) {
		t.Errorf("there are %d names, or one of the oldest", n)
	}
	r := run("x", 1, 0)
	page.Reset()
	same := []history.Job{{Summary: history.Summary{Name: "a\x01", Last: &r}}, {Summary: history.Summary{Name: `a\x01`, Last: &r}}}
	if err := history.WriteMetrics(&page, same); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(page.String(), `last_start_timestamp_seconds{name="a\\x01"}`); n != 1 {
		t.Errorf("the same label is there %d times\n%s", n, page.String())
	}
}
