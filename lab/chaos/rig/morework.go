package rig

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/lab/soak"
)

// coreRows are the stores of the rows with more work.
func coreRows() []Row {
	always := server.RedisOptions{Persist: true}
	dies := []string{"flushall", "clock jump", "restart without data", backupKind}
	edited := []string{rowsDeleted, "clock jump", backupKind, fileReplaced}
	return []Row{
		{"memory", "all of it: nothing outside of the process can fail", nil, built(memory)},
		{"file", "all but removing the lock files", []string{"remove lock file"}, built(files)},
		{"SQLite", "long write transactions; not rows that are deleted", edited, inDatabase(sqliteFile)},
		{"redis AOF always", "restarts that keep the disk", dies, inRedis(1, always, durableURL)},
		{"PostgreSQL", "restarts and table locks; not rows that are deleted", edited, inDatabase(postgreSQL)},
		{"MariaDB", "restarts and table locks; not rows that are deleted", edited, inDatabase(mariaDB)},
		{"etcd of three", "deaths and stops of one member at a time", nil, built(etcdMembers)},
		{"HTTP to redis AOF always", "restarts that keep the disk, and deaths of servers of padlock", dies, goOverHTTP(redisBehind(always))},
		{"HTTP to PostgreSQL", "restarts and table locks, and deaths of servers of padlock; not rows that are deleted", edited, goOverHTTP(postgresBehind)},
	}
}

// loaded changes the load of a row.
func loaded(build func(*Site) (*setup, error), add func(*soak.Load)) func(*Site) (*setup, error) {
	return func(s *Site) (*setup, error) {
		set, err := build(s)
		if err != nil {
			return nil, err
		}
		before := set.load
		set.load = func(l *soak.Load) {
			if before != nil {
				before(l)
			}
			add(l)
		}
		return set, nil
	}
}

// addQuestions adds questions: those who wait ask the holder to leave, and so does an operator from
// outside. Some holders leave, some stay, some never look. Other callers use package newest.
func addQuestions(l *soak.Load) { l.Questions, l.Asked, l.Newest = 10, 2, 4 }

// addPaths adds callers that lock random paths.
func addPaths(l *soak.Load) { l.Paths = 6 }

// addWeights adds callers that share ten units, with weights of 1 to 8.
func addWeights(l *soak.Load) { l.Weights = 4 }

// durableURL is the URL of a Redis that keeps its locks over restarts. Package newest needs leases of
// 50 s, and the guard against restarts would wait for as long.
func durableURL(at []string) string { return fmt.Sprintf("redis://%s?max-ttl=60s&durable=yes", at[0]) }

// tokenSecret is what the clients of a server of padlock show in order to break locks.
const tokenSecret = "soak-0123456789abcdef0123456789abcdef"

// goOverHTTP returns the setup of a row whose workers are programs in Go with the store
// httpstore, with all rights at two servers of padlock.
func goOverHTTP(serve func(s *Site, flags ...string) *serving) func(*Site) (*setup, error) {
	return built(func(s *Site) *setup {
		token, tokens := filepath.Join(s.dir, "token"), filepath.Join(s.dir, "tokens")
		must(os.WriteFile(token, []byte(tokenSecret), 0o600))
		must(os.WriteFile(tokens, []byte("soak "+tokenSecret+" read,acquire,ask,break\n"), 0o600))
		behind := serve(s, "--token-file", tokens, "--allow-break")
		ways := s.proxies(s.Workers, behind.addrs...)
		return &setup{
			stages: [][]string{stageOf(ways, func(at []string) string {
				return fmt.Sprintf("padlock+http://%s/?token-file=%s", strings.Join(at, ","), token)
			})},
			open: openSoon, faults: append(renamed(networkFaults(ways), clientsWay), behind.faults...), log: behind.log,
			goroutines: 4, back: backIn + servedTTL, restless: true,
		}
	})
}

func redisBehind(o server.RedisOptions) func(s *Site, flags ...string) *serving {
	return func(s *Site, flags ...string) *serving {
		servers := s.redis(1, o)
		return s.serveTwo(servers[0], func(at string) string { return durableURL([]string{at}) }, s.redisFaults(servers, o), flags...)
	}
}
