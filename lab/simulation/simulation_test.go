package simulation

import (
	"flag"
	"fmt"
	"os"
	"testing"
	"testing/synctest"
	"time"
)

var full = flag.Bool("full", false, "simulate 10,000 processes, and print the table of docs/internals/scale.md; takes minutes")

// table has the rows that -full prints.
var table []string

func TestMain(m *testing.M) {
	flag.Parse()
	status := m.Run()
	if *full {
		fmt.Println(tableHead)
		for _, row := range table {
			fmt.Println(row)
		}
	}
	os.Exit(status)
}

const tableHead = `
| scenario | processes | grants | requests per grant | Jain | requests/s | most after a restart | backlog | all served after |
|---|---|---|---|---|---|---|---|---|`

// sizes are the numbers of processes of a test.
func sizes() []int {
	if *full {
		return []int{100, 1000, 10_000}
	}
	return []int{10, 100}
}

// largest is the greatest number of processes of a test.
func largest() int { return sizes()[len(sizes())-1] }

// simulate runs a scenario in a bubble. It checks what has to be true in every scenario: no name
// has two holders, and fences grow.
func simulate(t *testing.T, scenario string, s Setting, run func() Result) (r Result) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { r = run() })
	t.Logf("%d processes, %s: %v", s.Processes, scenario, r)
	if r.Overlaps+r.OldFences > 0 {
		t.Errorf("%d grants of a name that was held, %d old fences", r.Overlaps, r.OldFences)
	}
	if r.Grants < s.Processes {
		t.Errorf("only %d grants", r.Grants)
	}
	peak, served := "", ""
	if s.Outage.At > 0 {
		peak = fmt.Sprint(r.Peak)
	}
	if r.AllServed > 0 {
		served = r.AllServed.Round(100 * time.Millisecond).String()
	}
	table = append(table, fmt.Sprintf("| %s | %d | %d | %.2f | %.3f | %d | %s | %d | %s |",
		scenario, s.Processes, r.Grants, r.PerGrant, r.Jain, r.PerSecond, peak, r.Backlog, served))
	return r
}

// oneName is the crowd of all tests: each process uses the lock for 100 µs.
func oneName(t *testing.T, scenario string, s Setting, takes int) Result {
	t.Helper()
	s.Network = withNetwork(s.Network)
	return simulate(t, scenario, s, Crowd{Setting: s, Takes: takes, Use: 100 * time.Microsecond, Arrive: time.Second}.Run)
}

// manyNames is the fleet of all tests: each process holds five of the names.
func manyNames(t *testing.T, scenario string, s Setting) Result {
	t.Helper()
	s.Network = withNetwork(s.Network)
	lasts := 30 * time.Second
	if s.Outage.LoseData {
		lasts += lease
	}
	return simulate(t, scenario, s, Fleet{Setting: s, Holds: 5, Change: time.Second, For: lasts}.Run)
}

func withNetwork(n Network) Network {
	n.OneWay, n.Service = Usual.OneWay, Usual.Service
	return n
}

// handOver is how long a hand-over takes in the crowd without a queue: the use, the way of the
// release, and the way of the next request. In a queue there is also the claim of the waiter.
const (
	handOver       = 500 * time.Microsecond
	queuedHandOver = handOver + 400*time.Microsecond
)

// takesFor keeps the number of grants small for a test with few processes.
func takesFor(processes int) int { return max(5, 2500/processes) }

// A waiter sends four requests: it tries, joins the queue, claims and releases. It also asks whether it
// still has its place, once after half a second and then every 15 s.
func TestOneName(t *testing.T) {
	for _, n := range sizes() {
		r := oneName(t, "one name, queue", Setting{Processes: n, Queue: true}, takesFor(n))
		if r.Failed+r.Lost+r.Refusals > 0 {
			t.Errorf("%d processes: %d calls failed, %d locks were lost", n, r.Failed+r.Refusals, r.Lost)
		}
		if most := 4.2 + float64(min(1, r.LongestWait/(500*time.Millisecond))) + float64(r.LongestWait/longLook); r.PerGrant > most {
			t.Errorf("%d processes: %.2f requests per grant, want at most %.2f", n, r.PerGrant, most)
		}
		if r.Jain < 0.99 {
			t.Errorf("%d processes: Jain's index is %.4f", n, r.Jain)
		}
		// First come, first served: a process waits until each other has had the lock once.
		if most := time.Duration(n+2) * queuedHandOver * 11 / 10; r.LongestWait > most {
			t.Errorf("%d processes: a process waited %v, want at most %v", n, r.LongestWait, most)
		}
	}
}

// Without a queue, each waiter sends some requests a second, however many waiters there are.
func TestOneNamePolling(t *testing.T) {
	for _, n := range sizes() {
		r := oneName(t, "one name, polling", Setting{Processes: n}, takesFor(n))
		if r.Failed+r.Lost+r.Refusals > 0 {
			t.Errorf("%d processes: %d calls failed, %d locks were lost", n, r.Failed+r.Refusals, r.Lost)
		}
		if most := n*12 + 2*int(time.Second/handOver); r.PerSecond > most {
			t.Errorf("%d processes: %d requests a second, want at most %d", n, r.PerSecond, most)
		}
	}
}

// A grant costs about three requests, and the renewals of five seconds. A wait that is given up
// costs three more.
func TestManyNames(t *testing.T) {
	var first Result
	for _, n := range sizes() {
		r := manyNames(t, fmt.Sprintf("%d names, queue", n*namesEach), Setting{Processes: n, Queue: true})
		if r.Failed+r.Lost > 0 {
			t.Errorf("%d processes: %d calls failed, %d locks were lost", n, r.Failed, r.Lost)
		}
		if first.Grants == 0 {
			first = r
		}
		if r.PerGrant > 8 || r.PerGrant > 1.2*first.PerGrant {
			t.Errorf("%d processes: %.2f requests per grant, and %.2f with few processes; want at most 8", n, r.PerGrant, first.PerGrant)
		}
	}
}

// Replies and messages to waiters are lost, and each lost message costs the time of a reservation.
func TestLostMessages(t *testing.T) {
	n := largest() / 10
	r := oneName(t, "one name, queue, 1 of 500 messages lost", Setting{
		Processes: n, Queue: true, Network: Network{LoseReply: 500, LoseHandOvers: 500},
	}, takesFor(n))
	if r.PerGrant > 6 {
		t.Errorf("%.2f requests per grant", r.PerGrant)
	}
	if r.Lost > 0 {
		t.Errorf("%d locks were lost", r.Lost)
	}
}
