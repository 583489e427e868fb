package filestore

import (
	"runtime"

	"github.com/padlock-go/padlock/driver"
)

// Guarantees implements driver.Store; docs/stores/file.md explains the promises.
func (s *Store) Guarantees() driver.Guarantees { return s.guarantees }

func promise(c *config) driver.Guarantees {
	g := driver.Guarantees{
		Store:            "file",
		SurvivesRestart:  driver.PromiseNo,
		SurvivesFailover: driver.PromiseNo,
		SafeClockJump:    driver.PromiseYes,
		SafeEviction:     driver.PromiseYes,
		Bound:            driver.BoundToProcess,
		Detached:         true,
		Fence:            driver.FenceDurable,
		SharedFence:      driver.PromisePartly,
		Shared:           true,
		Promotion:        driver.PromotionRegrant,
		FIFO:             hasKernelQueue && !c.network,
		CoolDown:         true,
		Hashed:           true,
		MaxLabel:         maxLabel,
		Lacks:            driver.AbilityStoreID,
		Notes: []string{
			"All programs must run on one machine and use the same directory.",
			"If a lock file or its directory is removed while the lock is held, the name is free. Keep cleaners of temporary files away from the directory. The holder notices the loss within 2.2 seconds, or at its next call.",
			"Readers that hold a lock together have the same fence, unless the disk is so full that the record of a new lock file cannot be written.",
			"Two names share a file if their readable parts are equal and their hashes agree in 42 bits, because Symfony names files so. Such names exclude each other, and the error says which name is in the way.",
			"A reboot frees every lock. Cool-downs continue by the wall clock, and fences still grow.",
			"PHP and flock(1) ignore cool-downs. They do not see a lock that padlock acquire or the option Detached took, because no process holds its file.",
			"Inspect and List read /proc/locks, which does not show processes of other containers. If a name might be held by one of these, Inspect and List return errors.ErrUnsupported. On systems without /proc/locks they try the lock for an instant instead.",
		},
	}
	if g.FIFO {
		g.Notes = append(g.Notes, "Waiters of padlock, PHP and flock(1) stand in one queue, which the kernel keeps, and get the lock in about the order of their arrival. A newcomer can overtake them in the moment in which the lock is free and the first of them is not yet awake. Waiters for the end of a lease or a cool-down poll, and the waiter that looks first gets the lock. Of the waiters of one process, 64 at once stand in the queue. If there are more, they take turns, and a waiter that gives up its place comes to the end.")
	}
	if runtime.GOOS == "windows" {
		g.Lacks |= driver.AbilityFileSharer
	}
	if c.access == world {
		g.Lacks |= driver.AbilityRecorder
		g.SafeEviction = driver.PromisePartly
		g.Notes = append(g.Notes, "Every user of the machine can write to the directory, and so can hold or falsify any lock.")
	}
	if c.network {
		g.Notes = append(g.Notes, "On a network file system, a broken connection can free a lock without notice, and other machines may not see the lock at all.")
	}
	return g
}
