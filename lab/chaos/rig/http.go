package rig

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/lab/soak"
)

// workerPy is the program of a worker that uses the client for Python, that for shells or "padlock
// run", and workerMJS that of one for Node.
//
//go:embed http/worker.py
var workerPy string

//go:embed http/worker.mjs
var workerMJS string

// The kinds of workers of a row over HTTP. Worker n is of kind n modulo their number.
const (
	kindGo     = "go"
	kindPython = "python"
	kindNode   = "node"
	kindShell  = "shell"
	kindLate   = "python-late" // a mutant, for a test: a lock is valid from the answer on
)

// clientsWay is where faults of the connections between clients and servers are.
const clientsWay = "client's way"

var kinds = []string{kindGo, kindPython, kindNode, kindShell}

// A serving is what the workers of a row over HTTP reach: two servers of one store.
type serving struct {
	addrs  []string
	faults []soak.Fault // of the servers, of their store and of the ways between them
	log    func() string
}

// overHTTP returns the setup of a row whose workers are clients of two servers of "padlock serve
// --api": programs in Go, Python and Node, and scripts. Each group of four workers, one of each
// kind, has a way of its own to each server.
//
// The programs are those of a user: the clients in the folder clients, and the command.
func overHTTP(kinds []string, serve func(*Site) *serving) func(*Site) (*setup, error) {
	return built(func(s *Site) *setup {
		s.Workers = max(len(kinds), s.Workers/len(kinds)*len(kinds))
		behind := serve(s)
		ways := s.proxies(s.Workers/len(kinds), behind.addrs...)
		python, node := s.foreignPrograms()
		clients := filepath.Join(got(git("rev-parse", "--show-toplevel")), "clients") // the row needs a clone of padlock
		program := map[string]string{kindGo: "", kindPython: python, kindLate: python, kindNode: node, kindShell: python}
		configs, programs := make([]string, s.Workers), make([]string, s.Workers)
		for w := range s.Workers {
			kind, way := kinds[w%len(kinds)], ways[w/len(kinds)]
			folder, _, _ := strings.Cut(kind, "-")
			programs[w] = program[kind]
			configs[w] = fmt.Sprintf("%s %s http://%s http://%s", kind, filepath.Join(clients, folder), way[0].Addr(), way[1].Addr())
			if kind == kindGo {
				configs[w] = fmt.Sprintf("padlock+http://%s,%s/", way[0].Addr(), way[1].Addr())
			}
		}
		return &setup{
			stages: [][]string{configs}, programs: [][]string{programs}, open: openSoon,
			faults: append(renamed(networkFaults(ways), clientsWay), behind.faults...),
			log:    behind.log, goroutines: 1, load: overHTTPLoad, back: backIn + servedTTL,
			kinds: kinds, kindOf: func(worker int, _ bool) string { return kinds[worker%len(kinds)] }, enough: 30 * time.Second,
		}
	})
}

// overHTTPLoad makes the workers compete for few names. padlock.sh has no lease below ten seconds.
// Nobody may break locks without a token. Elections are a matter of package padlock alone.
func overHTTPLoad(l *soak.Load) {
	l.Hot, l.Warm, l.ToHot = 2, 48, 20
	l.MinTTL, l.MaxTTL = time.Second, 10*time.Second
	l.Break, l.Elections = 0, 0
}

// foreignPrograms writes the programs of the workers that are not in Go, and returns their paths.
func (s *Site) foreignPrograms() (python, node string) {
	for _, name := range []string{"curl", "setsid", "python3", "node"} {
		got(exec.LookPath(name))
	}
	return s.inPython(), s.writeProgram("worker.mjs", workerMJS, "node", "-p", "process.execPath")
}

func (s *Site) inPython() string {
	return s.writeProgram("worker.py", workerPy, "python3", "-c", "import sys; print(sys.executable)")
}

func (s *Site) writeProgram(name, text, interpreter string, ask ...string) string {
	path := got(output(exec.Command(interpreter, ask...))) // a version manager may have put a script in its place
	file := filepath.Join(s.dir, name)
	must(os.WriteFile(file, []byte("#!"+path+"\n"+text), 0o700))
	return file
}

// openSoon opens the store of the engine. The store over HTTP may notice the death of a client only
// after the longest lease that it grants; in this soak no lease is longer than that of padlock.sh.
func openSoon(ctx context.Context, config string) (driver.Store, error) {
	s, err := Open(ctx, config)
	if err != nil {
		return nil, err
	}
	return soon{s}, nil
}

type soon struct{ driver.Store }

func (s soon) Unwrap() driver.Store { return s.Store }

func (s soon) Guarantees() driver.Guarantees {
	g := s.Store.Guarantees()
	g.DeadWaiter = min(g.DeadWaiter, 16*time.Second) // the lease, and the time for which a server keeps a place
	return g
}

// renamed says of the faults of connections where they are.
func renamed(faults []soak.Fault, where string) []soak.Fault {
	for i, f := range faults {
		faults[i].Kind, faults[i].On = f.Kind+" ("+where+")", soak.Targets(where, len(f.On))
	}
	return faults
}
