package rig

import (
	"errors"
	"math/rand/v2"
	"syscall"
	"time"

	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/lab/soak"
)

// slowExecs is a disk that does not respond for a while when one of the programs is executed.
func slowExecs(programs []string) []soak.Fault {
	return []soak.Fault{{Kind: "slow exec", On: soak.Targets("exec", len(programs)), Last: 6 * time.Second, Grace: 4 * time.Second, Weight: 6, Begin: begin(func(_ *rand.Rand, i int) func() {
		slow, err := server.SlowDown(programs[i])
		for end := time.Now().Add(5 * time.Second); errors.Is(err, syscall.EAGAIN) && time.Now().Before(end); { // the program is just being executed
			time.Sleep(time.Millisecond)
			slow, err = server.SlowDown(programs[i])
		}
		must(err)
		for end := time.Now().Add(2 * time.Second); !slow.Begun() && time.Now().Before(end); {
			time.Sleep(time.Millisecond)
		}
		return func() { must(slow.Go()) }
	})}}
}
