package simulation

import (
	"testing"
	"time"
)

// restarts are the outages of the tests. The server is down for three seconds.
var restarts = []struct {
	name   string
	outage Outage
	closed time.Duration // how long the server gives no locks after its return, or nobody notices the return
}{
	{"restart", Outage{At: 3 * time.Second, For: 3 * time.Second}, 0},
	{"silence", Outage{At: 3 * time.Second, For: 4 * time.Second, Silent: true}, 5 * time.Second},
	{"restart without data", Outage{At: 3 * time.Second, For: 3 * time.Second, LoseData: true}, lease},
}

// noStorm checks that the requests after a restart are spread over time. A process whose request
// failed waits longer and longer, up to a second, and the processes do not wait equally long.
//
// Ten thousand processes that poll use two thirds of the server, so more of their requests wait.
func noStorm(t *testing.T, r Result, processes int, queue bool) {
	t.Helper()
	if r.Peak > 4*r.PerSecond {
		t.Errorf("%d requests in a second after the restart, and at most %d before", r.Peak, r.PerSecond)
	}
	if most := 15 * processes / 2; r.Refused > most {
		t.Errorf("%d refused connections in a second, want at most 7.5 for each process", r.Refused)
	}
	most := 20 + processes/100
	if !queue {
		most = 20 + processes/4
	}
	if r.Backlog > most {
		t.Errorf("%d requests waited for the server at one time, want at most %d", r.Backlog, most)
	}
}

func TestOneNameRestart(t *testing.T) {
	n := largest()
	for _, c := range restarts {
		r := oneName(t, "one name, queue, "+c.name, Setting{Processes: n, Queue: true, Outage: c.outage}, takesFor(n))
		noStorm(t, r, n, true)
		if most := c.closed + time.Duration(n)*queuedHandOver*3/2 + 3*time.Second; r.AllServed > most {
			t.Errorf("%s: the last process was served %v after the restart, want at most %v", c.name, r.AllServed, most)
		}
	}
}

// The waits go on while the server is down, as a store may do for a few seconds.
func TestOneNameShortOutage(t *testing.T) {
	n := largest()
	outage := Outage{At: 3 * time.Second, For: 2 * time.Second}
	r := oneName(t, "one name, queue, waits go on", Setting{Processes: n, Queue: true, Patience: 3 * time.Second, Outage: outage}, takesFor(n))
	noStorm(t, r, n, true)
	if most := time.Duration(n)*queuedHandOver*3/2 + 3*time.Second; r.AllServed > most {
		t.Errorf("the last process was served %v after the restart, want at most %v", r.AllServed, most)
	}
}

func TestOneNameRestartPolling(t *testing.T) {
	n := largest() / 3 // a process may have to wait for minutes otherwise
	for _, c := range restarts[:2] {
		noStorm(t, oneName(t, "one name, polling, "+c.name, Setting{Processes: n, Outage: c.outage}, takesFor(n)), n, false)
	}
}

// An outage that is shorter than the leases costs no lock, if the server keeps its data.
func TestManyNamesRestart(t *testing.T) {
	n := largest()
	for _, c := range restarts {
		c.outage.At += 7 * time.Second // all processes hold their names by then
		for _, queue := range []bool{true, false} {
			if !queue && !*full {
				continue // TestOneNameRestartPolling is enough
			}
			how := "polling, "
			if queue {
				how = "queue, "
			}
			r := manyNames(t, "many names, "+how+c.name, Setting{Processes: n, Queue: queue, Outage: c.outage})
			noStorm(t, r, n, queue)
			if most := c.closed + 15*time.Second; r.AllServed == 0 || r.AllServed > most {
				t.Errorf("%s: the last process was served %v after the restart, want at most %v", c.name, r.AllServed, most)
			}
			if !c.outage.LoseData && r.Lost > 0 {
				t.Errorf("%d of %d locks were lost, although the server kept its data", r.Lost, 5*n)
			}
		}
	}
}

// All processes start at the same instant. Their renewals do not stay together, not even if they
// fail together.
func TestRenewals(t *testing.T) {
	n := largest()
	for _, c := range []struct {
		name   string
		outage Outage
	}{
		{"start", Outage{}},
		{"restart", Outage{At: 12 * time.Second, For: 3 * time.Second}},
	} {
		s := Setting{Processes: n, Queue: true, Outage: c.outage, Network: Usual}
		r := simulate(t, "own names, "+c.name, s, Keepers{Setting: s, Holds: 5, For: 30 * time.Second}.Run)
		if r.Lost+r.Failed > 0 {
			t.Errorf("%s: %d locks were lost, %d calls failed", c.name, r.Lost, r.Failed)
		}
		if most := 20 + n/4; r.Backlog > most {
			t.Errorf("%s: %d requests waited for the server at one time, want at most %d", c.name, r.Backlog, most)
		}
	}
}
