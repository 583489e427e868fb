package rig

import (
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/padlock-go/padlock/lab/soak"
	"github.com/padlock-go/padlock/lab/soak/linear"
)

func TestMain(m *testing.M) {
	soak.PlayWorker(openInTest)
	os.Exit(m.Run())
}

// TestRows runs some rows for a few seconds, with processes and faults. They run one after the
// other, because each counts the descriptors of this process before and after.
func TestRows(t *testing.T) {
	rows := []string{"file", "redis no persistence, guard strict", "redis, one caller a process", "PostgreSQL, invoices in transactions"}
	for _, row := range Rows() {
		for _, name := range rows {
			if row.Name == name {
				t.Run(name, func(t *testing.T) { short(t, row) })
			}
		}
	}
}

func short(t *testing.T, row Row) {
	needs(t, row)
	load := soak.DefaultLoad()
	load.Warm, load.MaxTTL = 16, time.Second
	o := Options{Seed: 3, For: 4 * time.Second, Tail: time.Second, Every: 300 * time.Millisecond, Workers: 2, Load: &load}
	r, out, err := row.Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	p, err := linear.Judge(r, out, t.TempDir(), 20*time.Second)
	var text strings.Builder
	p.Write(&text)
	t.Log(text.String())
	if err != nil || p.Verdict.Illegal > 0 || p.Sum() > 0 {
		t.Error("it breaks what it promises ", err)
	}
	if p.Grants < 50 || p.FaultSum() == 0 {
		t.Error("nothing happened")
	}
}

// needs skips a row whose server is not installed, outside of CI.
func needs(t *testing.T, row Row) {
	t.Helper()
	if !strings.Contains(row.Name, "redis") && !strings.Contains(row.Name, "SQL") {
		return
	}
	site, err := NewSite(1)
	if err != nil {
		t.Fatal(err)
	}
	defer site.End()
	if _, err := row.build(site); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
}

// TestFaultsWaitForAllWorkers checks that no fault begins before each worker has opened its store.
func TestFaultsWaitForAllWorkers(t *testing.T) {
	t.Parallel()
	for _, row := range Rows() {
		if row.Name == "file" {
			faultsWait(t, row)
		}
	}
}

func faultsWait(t *testing.T, row Row) {
	t.Helper()
	_, out, err := row.Run(t.Context(), Options{Seed: 3, For: time.Second, Every: time.Millisecond, Lanes: 2, Workers: 4})
	if err != nil {
		t.Fatal(err)
	}
	firstFault, started := int64(math.MaxInt64), map[int]int64{}
	for _, e := range out.Events {
		switch {
		case e.Op == soak.Faulted:
			firstFault = min(firstFault, e.Call)
		case e.Op == soak.Started && e.Life == 0:
			started[e.Worker] = e.At
		}
	}
	if len(started) != 4 || firstFault == math.MaxInt64 {
		t.Fatalf("only %d of 4 workers, or no fault", len(started))
	}
	for id, at := range started {
		if at > firstFault {
			t.Errorf("the first fault began %v before worker %d had opened its store", time.Duration(at-firstFault), id)
		}
	}
}

// A run with covered faults never makes a server forget fences and sets its clock back.
func TestKeepsFences(t *testing.T) {
	all := []soak.Fault{{Kind: "cut"}, {Kind: rowsDeleted}, {Kind: clockSetBack}, {Kind: backupKind}}
	for i, tt := range []struct {
		seed uint64
		have []soak.Fault
		want []int // of have
	}{
		{0, all, []int{0, 2}}, {1, all, []int{0, 1, 3}},
		{0, all[:2], []int{0, 1}}, {1, all[2:3], []int{0}}, {0, nil, nil},
	} {
		var got, want []string
		for _, f := range keepsFences(tt.seed, slices.Clone(tt.have)) {
			got = append(got, f.Kind)
		}
		for _, i := range tt.want {
			want = append(want, tt.have[i].Kind)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%d: %q, want %q", i, got, want)
		}
	}
}
