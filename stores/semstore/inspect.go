package semstore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit"
)

// Inspect implements driver.Admin. It takes no lock and makes no semaphore. If another process
// has the lock, Inspect reports only its process id. Inspect counts the waiters of all programs, if
// they wait in the kernel. With MaxThreads(0), the waiters of this store do not wait in the kernel,
// and Inspect reports the number of waiters as unknown.
func (s *Store) Inspect(ctx context.Context, name string) (driver.State, error) {
	if err := driver.CheckName(name, &guarantees); err != nil {
		return driver.State{}, err
	}
	key, err := s.keyOf(name)
	if err != nil {
		return driver.State{}, err
	}
	end, err := s.beginCall(ctx, storekit.HoldID{})
	if err != nil {
		return driver.State{}, err
	}
	defer end()
	state := driver.State{Name: name}
	set, err := find(key, false)
	held := false
	if err == nil {
		held, err = s.isHeldBy(key, set)
	}
	switch {
	case err == errRemoved:
		return state, nil
	case err != nil:
		return driver.State{}, inSet(key, err)
	case held:
		h, _ := s.occupant(set)
		state.Holds, state.Waiters = []driver.Hold{h}, s.countWaiters(set)
	}
	return state, nil
}

// List implements driver.Admin: the kernel knows keys only, and no names.
func (s *Store) List(context.Context, string) ([]driver.State, error) {
	return nil, errors.ErrUnsupported
}

// Break implements driver.Admin: a hold ends with its process.
func (s *Store) Break(context.Context, string, uint64) (uint64, error) {
	return 0, errors.ErrUnsupported
}

// Status implements driver.Reporter. It reports how many of the kernel's semaphores are in use.
func (s *Store) Status(ctx context.Context) ([]driver.Finding, error) {
	end, err := s.beginCall(ctx, storekit.HoldID{})
	if err != nil {
		return nil, err
	}
	defer end()
	f := driver.Finding{Name: "semaphores", Value: driver.Unknown}
	list, err1 := os.ReadFile("/proc/sysvipc/sem")
	limits, err2 := os.ReadFile("/proc/sys/kernel/sem")
	fields := strings.Fields(string(limits))
	if err1 != nil || err2 != nil || len(fields) != 4 {
		return []driver.Finding{f}, nil
	}
	used := strings.Count(string(list), "\n") - 1 // the first line is a heading
	f.Value = fmt.Sprintf("%d of %s in use", used, fields[3])
	if most, err := strconv.Atoi(fields[3]); err == nil && used > most/10*9 {
		f.Advice = "new locks fail when none is left; raise kernel.sem (sysctl), or remove old ones (ipcs -s, ipcrm)"
	}
	return []driver.Finding{f}, nil
}
