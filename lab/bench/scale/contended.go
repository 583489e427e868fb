//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/lab/bench/measure"
	"github.com/padlock-go/padlock/lab/bench/trial"
)

// clusterRow is a Redis Cluster of three primaries.
const clusterRow = "Redis, three primaries"

// processes are Lockers with a store and connections of their own, as if each were a process.
type processes []*padlock.Locker

// busyNodeRow is the row for a Redis Cluster in which one of the three primaries has all names.
const busyNodeRow = "Redis, three primaries, full load"

// openProcesses opens n processes. Each takes a lock once, so that it is connected.
func (b *bench) openProcesses(r *rig, n int) (all processes, err error) {
	for i := range n {
		store, err := r.open()
		if err != nil {
			return all, err
		}
		l := padlock.New(store, padlock.TTL(b.plan.ttl))
		all = append(all, l)
		if err := l.Do(context.Background(), fmt.Sprint("bench:scale:first:", i), func(context.Context) error { return nil }); err != nil {
			return all, err
		}
	}
	return all, nil
}

func (all processes) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return trial.Together(len(all), func(i int) error { return all[i].Close(ctx) })
}

// waiting measures what it costs when processes wait for a name that nobody releases.
func (b *bench) waiting() *measure.Experiment {
	e := &measure.Experiment{
		Name:    fmt.Sprintf("%d processes wait for one name", b.plan.processes),
		Columns: []string{"connections each", "server KiB each", "client KiB each", "requests/s", "server ms/s"},
	}
	for _, x := range engines {
		if x.name != unsavedRow {
			e.Rows = append(e.Rows, measure.Row{Name: x.name, Run: func() (measure.Figures, error) { return b.waitFor(x) }})
		}
	}
	return e
}

func (b *bench) waitFor(e engine) (f measure.Figures, err error) {
	h := &server.Host{}
	defer h.End()
	r, err := e.start(h, b.plan.processes)
	if err != nil {
		return nil, err
	}
	defer r.close()
	holder, err := b.openProcesses(r, 1)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, holder.close()) }()
	const name = "bench:scale:wanted"
	if _, err := holder[0].Acquire(context.Background(), name); err != nil {
		return nil, err
	}
	server, connections := residentMemory(r.pids()), r.connections()
	heap, stacks := measure.Memory()
	all, err := b.openProcesses(r, b.plan.processes)
	ctx, stop := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	defer func() {
		stop()
		wg.Wait()
		err = errors.Join(err, all.close())
	}()
	if err != nil {
		return nil, err
	}
	for _, l := range all {
		wg.Go(func() { l.Acquire(ctx, name) }) // ends with ctx
	}
	time.Sleep(b.plan.waited) // every process has its place in the queue
	requests, err := r.requests()
	if err != nil {
		return nil, err
	}
	used, start := r.processorTime(), time.Now()
	time.Sleep(b.plan.waited)
	seconds := time.Since(start).Seconds()
	after, err := r.requests()
	heapAfter, stacksAfter := measure.Memory()
	per := 1 / float64(len(all))
	return measure.Figures{
		"connections each": float64(r.connections()-connections) * per,
		"server KiB each":  (residentMemory(r.pids()) - server) / 1024 * per,
		"client KiB each":  (heapAfter + stacksAfter - heap - stacks) / 1024 * per,
		"requests/s":       (after - requests) / seconds,
		"server ms/s":      measure.Micros(r.processorTime()-used) / 1000 / seconds,
	}, err
}

// connections counts the connections from clients to the servers.
func (r *rig) connections() (n int) {
	text, _ := os.ReadFile("/proc/net/tcp")
	for _, s := range r.servers {
		to := fmt.Appendf(nil, ":%04X", s.Place().Port)
		for line := range bytes.Lines(text) {
			// number, local address, remote address, state
			fields := bytes.Fields(line)
			if len(fields) > 3 && bytes.HasSuffix(fields[2], to) && string(fields[3]) == "01" {
				n++
			}
		}
	}
	return n
}

// handOvers lets processes hand many names over to each other. The names of a cluster are spread
// over its primaries.
func (b *bench) handOvers() *measure.Experiment {
	e := b.throughput(fmt.Sprintf("%d processes hand %d names over", b.plan.lockers, b.plan.names), true)
	for _, x := range engines {
		if x.name != unsavedRow && x.name != redisRow {
			e.Rows = append(e.Rows, measure.Row{Name: x.name, Run: func() (measure.Figures, error) { return b.handOver(x, true) }})
		}
	}
	return e
}

// freeNames lets processes take and release names that nobody else wants.
func (b *bench) freeNames() *measure.Experiment {
	return b.throughput(fmt.Sprintf("%d processes take %d free names", b.plan.lockers, b.plan.lockers*b.plan.names), false)
}

// throughput compares one Redis with a cluster.
func (b *bench) throughput(name string, shared bool) *measure.Experiment {
	e := &measure.Experiment{
		Name:    name,
		Columns: []string{"locks/s", "server us", "node us", "limit/s", "max/min"},
		Base:    redisRow, Ratio: "limit/s",
		Targets: []measure.Target{
			{Row: clusterRow, Column: "limit/s", Base: redisRow, AtLeast: 2.4},
			{Row: busyNodeRow, Column: "limit/s", Base: redisRow, AtLeast: 2.4},
		},
	}
	for _, x := range []engine{engines[0], {name: clusterRow, start: startCluster}, {name: busyNodeRow, start: startBusyNode}} {
		e.Rows = append(e.Rows, measure.Row{Name: x.name, Run: func() (measure.Figures, error) { return b.handOver(x, shared) }})
	}
	return e
}

// handOver measures how often the processes take names, and how much processor time the servers
// use. If shared is true, all processes want the same names. Otherwise each process has names of
// its own.
func (b *bench) handOver(e engine, shared bool) (f measure.Figures, err error) {
	h := &server.Host{}
	defer h.End()
	r, err := e.start(h, b.plan.names)
	if err != nil {
		return nil, err
	}
	defer r.close()
	all, err := b.openProcesses(r, b.plan.lockers)
	defer func() { err = errors.Join(err, all.close()) }()
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	var wg sync.WaitGroup
	grants := make([]atomic.Int64, len(all))
	if err := b.startCallers(ctx, &wg, r, all, grants, shared); err != nil {
		return nil, err
	}
	defer func() {
		stop()
		wg.Wait()
	}()
	time.Sleep(b.plan.trial / 5) // every caller waits
	used, from, start := r.processorTime(), counts(grants), time.Now()
	time.Sleep(b.plan.trial)
	seconds, to := time.Since(start).Seconds(), counts(grants)
	spent := measure.Micros(r.processorTime() - used)
	total, most, least := 0.0, 0.0, 0.0
	for i := range to {
		n := to[i] - from[i]
		total += n
		if most = max(most, n); i == 0 || n < least {
			least = n
		}
	}
	f = measure.Figures{"locks/s": total / seconds, "max/min": most / least, "server us": spent / total}
	if e.name == redisRow || e.name == clusterRow || e.name == busyNodeRow { // one thread of each node runs the commands
		node := spent / total / float64(len(r.servers)) // each node has as many names as the others
		f["node us"], f["limit/s"] = node, 1e6/node
	}
	return f, nil
}

// startCallers starts goroutines that take names again and again. If shared is true, each process
// has one goroutine for each of the names. Otherwise, each name belongs to one of the processes,
// and only that process has a goroutine for it.
func (b *bench) startCallers(ctx context.Context, wg *sync.WaitGroup, r *rig, all processes, grants []atomic.Int64, shared bool) error {
	wanted := b.plan.names
	if !shared {
		wanted *= len(all)
	}
	names, err := r.pickNames(wanted)
	if err != nil {
		return err
	}
	for i, l := range all {
		for n, name := range names {
			if shared || n%len(all) == i {
				wg.Go(func() { takeInTurn(ctx, l, name, &grants[i]) })
			}
		}
	}
	return nil
}

// takeInTurn takes and releases a name until ctx ends, and counts how often.
func takeInTurn(ctx context.Context, l *padlock.Locker, name string, granted *atomic.Int64) {
	for ctx.Err() == nil {
		lock, err := l.Acquire(ctx, name)
		if err != nil {
			continue // ctx has ended, or a server is late
		}
		granted.Add(1)
		lock.Release()
	}
}

func counts(all []atomic.Int64) (n []float64) {
	for i := range all {
		n = append(n, float64(all[i].Load()))
	}
	return n
}

// processorTime returns the processor time of all servers.
func (r *rig) processorTime() time.Duration { return processorTime(r.pids()) }
