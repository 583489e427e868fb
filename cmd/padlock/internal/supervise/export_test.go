package supervise

import (
	"os"
	"time"
)

// With PATIENT set, the supervisor gives a busy machine a minute. The scripts of package command have
// this file in their padlock.
func init() {
	if os.Getenv("PATIENT") != "" {
		answerTime, findTime = time.Minute, time.Minute
	}
}

// KillAfterJoin starts a supervisor that ends at once, waits for it, and kills
// it too late.
func KillAfterJoin() error {
	l := newLink(&Spec{})
	conn, err := l.startSupervisor()
	if err != nil {
		return err
	}
	_ = conn.Close()
	l.join()
	return l.kill()
}

// Woken reports whether the supervisor has carried out all calls of Continue.
func Woken(p *Process) bool { return p.waking.Load() == 0 }
