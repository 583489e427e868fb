package command

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/cmd/padlock/internal/doctor"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/observe/sampler"
)

// TestNextStep has each row of the table at nextStep.
func TestNextStep(t *testing.T) {
	now := time.Now()
	held := func(h padlock.Hold, slot int) *sampler.Name {
		return &sampler.Name{Name: "job", Fence: 7, Holds: []sampler.Hold{{Slot: slot, Hold: h}}}
	}
	by := func(host string, pid int) padlock.Hold {
		return padlock.Hold{Holder: driver.Holder{Host: host, PID: pid}, Since: now.Add(-time.Minute), Until: now.Add(20 * time.Second)}
	}
	const nobody = 1<<22 + 1 // above every process number of Linux
	full := []doctor.Finding{{Check: "rights", State: doctor.Problem, Seen: "OOM", Do: "raise maxmemory"}}
	guard := fmt.Errorf("%w: it gives new ones in 58s (restart guard)", padlock.ErrUnavailable)
	newer := fmt.Errorf("%w: a newer padlock has written it", padlock.ErrUnavailable) // as stores say it
	noLease := by("here", nobody)
	noLease.Until = time.Time{}
	for what, c := range map[string]struct {
		n       *sampler.Name
		unknown error
		found   []doctor.Finding
		next    string
		do      string
	}{
		"guard":         {nil, guard, nil, "wait: ", ""},
		"newer":         {nil, newer, nil, "finish the upgrade", "padlock --version"},
		"away":          {nil, errors.New("no route"), nil, "mend the store", "padlock doctor"},
		"full":          {held(by("here", os.Getpid()), -1), nil, full, "raise maxmemory", "padlock doctor"},
		"no name":       {nil, nil, nil, "choose a name", "padlock report NAME"},
		"free":          {&sampler.Name{Name: "job"}, nil, nil, "nobody holds the name", "padlock stores --used"},
		"cooling":       {held(padlock.Hold{Cooling: true, Until: now.Add(time.Minute)}, -1), nil, nil, "wait: ", "padlock break --fence 7 job"},
		"foreign":       {held(padlock.Hold{Foreign: true}, -1), nil, nil, "find the holder", ""},
		"alive":         {held(by("here", os.Getpid()), -1), nil, nil, "lives", "padlock ask"},
		"dead":          {held(by("here", nobody), -1), nil, nil, "is dead", "padlock break --fence 7 job"},
		"dead, no end":  {held(noLease, -1), nil, nil, "fuser", "padlock break"},
		"another host":  {held(by("there", 12), -1), nil, nil, "look on there", "padlock break --fence 7 job    # if it or its host is dead"},
		"slot, is dead": {held(by("here", nobody), 2), nil, nil, "is dead", "padlock break --slot 2 job"},
	} {
		next, do := nextStep("job", c.n, c.unknown, c.found, "here", now)
		lines := strings.Join(do, "\n")
		if !strings.Contains(next, c.next) || !strings.Contains(lines, c.do) || c.do == "" && lines != "" {
			t.Errorf("%s: %s\n%s", what, next, lines)
		}
		if what == "alive" && strings.Contains(lines, "break") {
			t.Errorf("%s: a living holder is broken: %s", what, lines)
		}
	}
}
