package rig

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/padlock-go/padlock/internal/integration/chaos/judge"
	"github.com/padlock-go/padlock/internal/soak"
)

func TestMain(m *testing.M) {
	soak.PlayWorker(Open, Encoding)
	os.Exit(m.Run())
}

// TestRows runs some rows for a few seconds, with processes and faults.
func TestRows(t *testing.T) {
	rows := []string{"file", "redis no persistence, guard strict", "redis, one caller a process"}
	for _, row := range Rows() {
		for _, name := range rows {
			if row.Name == name {
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					short(t, row)
				})
			}
		}
	}
}

func short(t *testing.T, row Row) {
	needs(t, row)
	load := soak.DefaultLoad()
	load.Warm, load.MaxTTL = 16, time.Second
	r, out, err := row.Run(t.Context(), Options{Seed: 3, For: 4 * time.Second, Tail: time.Second, Every: 300 * time.Millisecond, Workers: 2, Load: &load})
	if err != nil {
		t.Fatal(err)
	}
	p := soak.NewReport(r, out)
	v, err := judge.Check(out.Events, t.TempDir(), 20*time.Second)
	p.Verdict = v.String()
	var text strings.Builder
	p.Write(&text)
	t.Log(text.String())
	if err != nil || p.Sum() > 0 || v.Illegal > 0 {
		t.Error("it breaks what it promises ", err)
	}
	if p.Grants < 50 || p.FaultSum() == 0 {
		t.Error("nothing happened")
	}
}

// needs skips a row whose server is not installed, outside of CI.
func needs(t *testing.T, row Row) {
	t.Helper()
	if !strings.Contains(row.Name, "redis") {
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
