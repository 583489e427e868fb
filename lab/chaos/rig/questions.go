package rig

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/lab/soak"
)

// Rows returns the table of stores, and that of the rows with questions.
func Rows() []Row { return append(storeRows(), questionRows()...) }

func questionRows() []Row {
	always := server.RedisOptions{Persist: true}
	dies := []string{"flushall", "clock jump", "restart without data", backupKind}
	edited := []string{"rows deleted", "clock jump", backupKind, fileReplaced}
	return []Row{
		{"memory, with questions", "all of it: nothing outside of the process can fail", nil, questioned(built(memory))},
		{"file, with questions", "all but removing the lock files", []string{"remove lock file"}, questioned(built(files))},
		{"SQLite, with questions", "long write transactions; not rows that are deleted", edited, questioned(inDatabase(sqliteFile))},
		{"redis AOF always, with questions", "restarts that keep the disk", dies, questioned(inRedis(1, always, durableURL))},
		{"PostgreSQL, with questions", "restarts and table locks; not rows that are deleted", edited, questioned(inDatabase(postgreSQL))},
		{"MariaDB, with questions", "restarts and table locks; not rows that are deleted", edited, questioned(inDatabase(mariaDB))},
		{"etcd of three, with questions", "deaths and stops of one member at a time", nil, questioned(built(etcdMembers))},
		{"HTTP to redis AOF always, with questions", "restarts that keep the disk, and deaths of servers of padlock", dies, questioned(questionedOverHTTP(redisBehind(always)))},
		{"HTTP to PostgreSQL, with questions", "restarts and table locks, and deaths of servers of padlock; not rows that are deleted", edited, questioned(questionedOverHTTP(postgresBehind))},
	}
}

// questioned adds questions to a row: those who wait ask the holder to leave, and so does an operator
// from outside. Some holders leave, some stay, some never look. Other callers use package newest.
func questioned(build func(*Site) (*setup, error)) func(*Site) (*setup, error) {
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
			l.Questions, l.Asked, l.Newest = 10, 2, 4
		}
		return set, nil
	}
}

// durableURL is the URL of a Redis that keeps its locks over restarts. Package newest needs leases of
// 50 s, and the guard against restarts would wait for as long.
func durableURL(at []string) string { return fmt.Sprintf("redis://%s?max-ttl=60s&durable=yes", at[0]) }

// tokenSecret is what the clients of a server of padlock show in order to break locks.
const tokenSecret = "soak-0123456789abcdef0123456789abcdef"

// questionedOverHTTP returns the setup of a row whose workers are programs in Go with the store
// httpstore, with all rights at two servers of padlock.
func questionedOverHTTP(serve func(s *Site, flags ...string) *serving) func(*Site) (*setup, error) {
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
