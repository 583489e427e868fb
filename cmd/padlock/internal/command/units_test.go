package command

import (
	"testing"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
)

func TestSeconds(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"0": 0, "1": time.Second, "1.5": 1500 * time.Millisecond, ".25": 250 * time.Millisecond, "1e2": 100 * time.Second,
		"90s": 90 * time.Second, "1h30m": 90 * time.Minute, "5ms": 5 * time.Millisecond,
		"1d": 24 * time.Hour, "2d12h": 60 * time.Hour,
	} {
		if got, err := parseSeconds(text); err != nil || got != want {
			t.Errorf("%q: %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "x", "-1", "-1s", "1 s", "NaN", "Inf", "-Inf", "1e300", "9000h", "d", "-1d", "1d-1h", "1.5d", "1d2", "367d", "1h1d", "0x", "1;2"} {
		if got, err := parseSeconds(text); err == nil {
			t.Errorf("%q is locked for %v", text, got)
		}
	}
}

func TestSignalFlag(t *testing.T) {
	for text, want := range map[string]string{"TERM": "TERM", "sigint": "INT", "Int": "INT", "9": "KILL", "SIGKILL": "KILL"} {
		var s signalFlag
		if err := s.Set(text); err != nil || s.String() != want {
			t.Errorf("%q: %v, %v; want %s", text, &s, err, want)
		}
	}
	for _, text := range []string{"", "0", "-9", "65", "SIG", "HELLO"} {
		if err := (&signalFlag{}).Set(text); err == nil {
			t.Errorf("%q is locked for a signal", text)
		}
	}
}

func TestHeldText(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.Local)
	mine := padlock.Hold{Since: now.Add(-90 * time.Second)}
	mine.Host, mine.PID, mine.Label = "web1", 42, "./report.sh"
	leased, planned, cooling, shared, old := mine, mine, mine, mine, mine
	leased.Until = now.Add(20 * time.Second)
	planned.Until, planned.PlannedEnd = leased.Until, now.Add(time.Hour)
	cooling.Cooling, cooling.Until = true, now.Add(8*time.Second)
	shared.Shared = true
	old.Since = now.Add(-48 * time.Hour)
	bare := padlock.Hold{Cooling: true, Until: now.Add(8 * time.Second)}
	foreign := padlock.Hold{Foreign: true}
	evil := padlock.Hold{}
	evil.Host, evil.PID, evil.Label = "h\x1b[2J", 1, "a\nb"
	for _, c := range []struct {
		held padlock.HeldError
		want string
	}{
		{padlock.HeldError{}, "x is held by somebody else"},
		{padlock.HeldError{Until: now.Add(time.Minute)}, "x is held by somebody else until 12:01:00 (1m0s more)"},
		{padlock.HeldError{Holds: []padlock.Hold{mine}}, "x is held by web1:42 (./report.sh), since 11:58:30 (for 1m30s)"},
		{padlock.HeldError{Holds: []padlock.Hold{leased}}, "x is held by web1:42 (./report.sh), since 11:58:30 (for 1m30s) until 12:00:20 (20s more) unless it is renewed"},
		{padlock.HeldError{Holds: []padlock.Hold{planned}}, "x is held by web1:42 (./report.sh), since 11:58:30 (for 1m30s) until 12:00:20 (20s more) unless it is renewed, to end by 13:00:00"},
		{padlock.HeldError{Holds: []padlock.Hold{cooling}}, "x is cooling down until 12:00:08 (8s more); the last holder was web1:42 (./report.sh)"},
		{padlock.HeldError{Holds: []padlock.Hold{bare}}, "x is cooling down until 12:00:08 (8s more)"},
		{padlock.HeldError{Holds: []padlock.Hold{shared, shared}}, "x is held by web1:42 (./report.sh), shared, since 11:58:30 (for 1m30s), and by 1 more (padlock status x lists them)"},
		{padlock.HeldError{Holds: []padlock.Hold{old}}, "x is held by web1:42 (./report.sh), since 2026-02-27 12:00:00 (for 48h0m)"},
		{padlock.HeldError{Holds: []padlock.Hold{foreign}}, "x is held by a program other than padlock"},
		{padlock.HeldError{Holds: []padlock.Hold{{}}}, "x is held by somebody unknown"},
		{padlock.HeldError{Holds: []padlock.Hold{evil}}, `x is held by "h\x1b[2J":1 ("a\nb")`},
	} {
		if got := heldText("x", &c.held, now); got != c.want {
			t.Errorf("got  %s\nwant %s", got, c.want)
		}
	}
}

// A store of one machine may not know the name of the machine.
func TestHolderWithoutHost(t *testing.T) {
	for want, h := range map[string]padlock.Hold{
		"process 7":          {Holder: driver.Holder{PID: 7}},
		"process 7 (backup)": {Holder: driver.Holder{PID: 7, Label: "backup"}},
		"web-3:7":            {Holder: driver.Holder{Host: "web-3", PID: 7}},
		"somebody unknown":   {},
		"a program other than padlock (process 7)": {Holder: driver.Holder{PID: 7}, Foreign: true},
	} {
		if got := holderName(h); got != want {
			t.Errorf("%+v is %q, want %q", h, got, want)
		}
	}
}
