package rig

import (
	"fmt"
	"path/filepath"
	"time"

	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/lab/soak"
)

// runWord begins the configuration of a worker whose jobs run under "padlock run".
const runWord = "run"

// underRun returns the setup of a row whose workers start "padlock run" for each lock, and sometimes
// kill or stop it. The jobs note themselves when they run. Each worker has a program of its own for
// its jobs, so that a fault can make the exec of this program slow.
func underRun(s *Site) *setup {
	o := server.RedisOptions{}
	servers := s.redis(1, o)
	got(server.BuildPadlock(s.dir))
	set, worker := s.through(servers, redisURL(0, "restart-guard=strict")), s.inPython()
	var programs, jobs []string
	for id, url := range set.stages[0] {
		programs, jobs = append(programs, worker), append(jobs, filepath.Join(s.dir, fmt.Sprint("job-", id)))
		must(server.WriteProgram(jobs[id], []byte("#!/bin/sh\nread -r up idle </proc/uptime\necho $PADLOCK_FENCE $up\nexec "+worker+" \"$@\"\n")))
		set.stages[0][id] = fmt.Sprintf("%s %s %s", runWord, s.dir, url)
	}
	set.programs = [][]string{programs}
	set.faults = append(append(set.faults, s.redisFaults(servers, o)...), slowExecs(jobs)...)
	set.goroutines, set.load = 1, func(l *soak.Load) {
		l.Hot, l.Warm, l.ToHot, l.Own, l.Epoch = 1, 4, 60, 3, time.Hour
		l.MinTTL, l.MaxTTL, l.MinHold, l.MaxHold = time.Second, 1200*time.Millisecond, 5*time.Millisecond, 60*time.Millisecond
		l.Break, l.Elections = 0, 0
	}
	return set
}
