package rig

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/lab/soak"
	"github.com/padlock-go/padlock/open/all"
)

// Site holds the servers and files of one run. End removes all of them.
type Site struct {
	Workers int
	host    server.Host
	say     func(string) // reports what a row has to tell
	dir     string
	older   string        // the directory of the older padlocks; "" means dir
	mixed   bool          // some workers, and one of two servers of padlock, are older ones
	oldest  bool          // the older workers are of olderCommit
	clock   *server.Clock // of all servers; nil if there is no C compiler for it
}

// NewSite returns an empty site.
func NewSite(workers int) (*Site, error) {
	dir, err := os.MkdirTemp("", "padlock-chaos-")
	if err != nil {
		return nil, err
	}
	s := &Site{Workers: workers, dir: dir, say: func(string) {}}
	s.host.Cleanup(func() { os.RemoveAll(dir) })
	return s, nil
}

// End stops all servers and removes all files of the site.
func (s *Site) End() error { return try(s.host.End) }

// Open opens the store of a configuration, which is a URL.
func Open(ctx context.Context, config string) (driver.Store, error) {
	switch words := strings.Fields(config); words[0] {
	case bankWord:
		return openBank(ctx, words[1:], nil)
	case unreadWord:
		if err := failReads(words[1]); err != nil {
			return nil, err
		}
		config = words[2]
	case runWord:
		config = words[2]
	}
	return all.Store(ctx, config)
}

// redis starts n servers. If there is a C compiler, faults can set their clocks.
func (s *Site) redis(n int, o server.RedisOptions) (servers []*server.Server) {
	o.Env = append(o.Env, s.clockEnv()...)
	for range n {
		servers = append(servers, server.Redis(&s.host, o))
	}
	return servers
}

// Fast starts a Redis server whose clock runs too fast until End. Each second, the clock gains the
// given share of a second.
func (s *Site) Fast(share float64) (fast *server.Server, err error) {
	err = try(func() {
		fast = s.redis(1, server.RedisOptions{})[0]
		if s.clock == nil {
			must(errors.New("there is no C compiler for the clock"))
		}
		stop, stopped := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(stopped)
			tick := time.NewTicker(2 * time.Millisecond)
			defer tick.Stop()
			for begun := time.Now(); ; {
				select {
				case <-stop:
					return
				case <-tick.C:
					s.clock.Set(time.Duration(float64(time.Since(begun)) * share)) // cannot fail: the file is there until End
				}
			}
		}()
		s.host.Cleanup(func() {
			close(stop)
			<-stopped
		})
	})
	return fast, err
}

// clockEnv returns what the environment of a server needs, so that faults can set its clock. Without
// a C compiler it returns nothing.
func (s *Site) clockEnv() []string {
	if s.clock == nil {
		s.clock = server.NewClock(&s.host)
	}
	if s.clock == nil {
		return nil
	}
	return s.clock.Env
}

// removeFile deletes a lock file, as programs that clean up temporary files do.
func removeFile(dir string) soak.Fault {
	return soak.Fault{Kind: "remove lock file", Begin: begin(func(d *rand.Rand, _ int) func() {
		if files := got(os.ReadDir(dir)); len(files) > 0 {
			if err := os.Remove(filepath.Join(dir, files[d.IntN(len(files))].Name())); !os.IsNotExist(err) {
				must(err)
			}
		}
		return nil
	})}
}
