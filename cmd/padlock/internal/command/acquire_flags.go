package command

import "github.com/padlock-go/padlock"

// acquireFlags holds the flags of acquire.
type acquireFlags struct {
	shared, nonblock   bool
	wait, ttl, atLeast seconds
	conflict           exitStatus
	label, keyFile     string
}

func (set *acquireFlags) options() []padlock.Option {
	return append(acquireOptions(set.label, set.shared, set.nonblock, set.wait, set.ttl, set.atLeast), padlock.Detached())
}

// acquireOptions converts flags into options of Acquire. The commands "padlock run" and "padlock
// acquire" share these flags.
func acquireOptions(label string, shared, nonblock bool, wait, ttl, atLeast seconds) []padlock.Option {
	opts := []padlock.Option{padlock.Label(label), padlock.HoldAtLeast(atLeast.d)}
	if shared {
		opts = append(opts, padlock.Shared())
	}
	switch {
	case nonblock:
		opts = append(opts, padlock.Wait(0))
	case wait.given:
		opts = append(opts, padlock.Wait(wait.d))
	}
	if ttl.given {
		opts = append(opts, padlock.TTL(ttl.d))
	}
	return opts
}

// notTaken explains why a lock was not taken.
func (a *app) notTaken(set *acquireFlags, name string, err error) *failure {
	why := a.unsuccessful(name, "taken", err)
	if why.status != exitHeld {
		return why
	}
	why.status, why.note.Exit = int(set.conflict), int(set.conflict)
	if set.wait.d > 0 {
		why.note.Message += "; gave up after " + span(set.wait.d)
	}
	return why
}
