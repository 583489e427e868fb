package simulation

import (
	"context"
	"sync"
	"time"
)

// referee watches the grants of one scenario.
type referee struct {
	began time.Time
	from  time.Duration // only grants after this time are counted; all processes have begun by then
	goal  int           // the number of grants that ends the scenario; see acquired
	done  context.CancelFunc
	sent  func() int // the number of requests so far

	mu       sync.Mutex
	inside   map[string]int    // the holders of each name
	fence    map[string]uint64 // the last fence of each name
	served   []int             // the grants of each process
	grants   int
	before   int       // the number of requests before the first counted grant
	outage   bool      // there will be an outage
	returned time.Time // when the server came back, or zero
	again    []bool    // by process: whether it has been served since the server came back
	unserved int       // the number of processes that have not been served since the server came back
	result   Result
}

func newReferee(processes, goal int, from time.Duration, done context.CancelFunc) *referee {
	return &referee{
		began: time.Now(), from: from, goal: goal, done: done,
		inside: make(map[string]int), fence: make(map[string]uint64), served: make([]int, processes),
	}
}

// serverReturned begins to count the processes that have not been served since the outage.
func (f *referee) serverReturned() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.outage = false
	f.returned, f.again, f.unserved = time.Now(), make([]bool, len(f.served)), len(f.served)
}

// acquired notes that a process has taken a name. The process had asked for the name at the time
// askedAt. If the goal is reached now, acquired ends the scenario. In a scenario with an outage of
// the server, there is one more condition: each process must have got a name after the outage.
func (f *referee) acquired(process int, name string, fence uint64, askedAt time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if time.Since(f.began) >= f.from {
		if f.grants == 0 {
			f.before = f.sent()
		}
		f.grants++
		f.served[process]++
	}
	f.inside[name]++
	if f.inside[name] > 1 {
		f.result.Overlaps++
	}
	if fence <= f.fence[name] {
		f.result.OldFences++
	}
	f.fence[name] = fence
	f.result.LongestWait = max(f.result.LongestWait, time.Since(askedAt))
	if f.unserved > 0 && !f.again[process] {
		f.again[process] = true
		if f.unserved--; f.unserved == 0 {
			f.result.AllServed = time.Since(f.returned)
		}
	}
	if f.grants >= f.goal && !f.outage && f.unserved == 0 {
		f.done()
	}
}

// ended notes the end of the scenario. Requests that the processes send later, while they end, do
// not count.
func (f *referee) ended() {
	f.mu.Lock()
	defer f.mu.Unlock()
	r := &f.result
	r.Grants, r.Jain, r.Took = f.grants, jain(f.served), time.Since(f.began)
	r.PerGrant = float64(f.sent()-f.before) / float64(max(1, r.Grants))
}

// stoppedUsing notes that a process no longer uses a name. It is called when the lock's context
// ends, just before a release or after a loss.
func (f *referee) stoppedUsing(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.inside[name]--
}

// count adds one to a number of the result.
func (f *referee) count(n *int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	*n++
}
