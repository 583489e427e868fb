package filestore

import "github.com/padlock-go/padlock/driver"

// Guarantees implements driver.Store; docs/stores/file.md explains the promises.
func (s *Store) Guarantees() driver.Guarantees { return s.guarantees }

func promise(c *config, dir string) driver.Guarantees {
	g := driver.Guarantees{
		Store:            "file",
		SurvivesRestart:  driver.No,
		SurvivesFailover: driver.No,
		SafeClockJump:    driver.Yes,
		SafeEviction:     driver.Yes,
		Bound:            driver.ToProcess,
		Detached:         true,
		Fence:            driver.DurableFence,
		SharedFence:      driver.Partly,
		Shared:           true,
		Promotion:        driver.Regrant,
		FIFO:             inOrder(c, dir),
		CoolDown:         true,
		Notes: []string{
			"All programs run on one machine and use the same directory.",
			"Removing a lock file, or its directory, while it is held frees the name: keep cleaners of temporary files away. The holder notices within 2.2 seconds, or at its next call.",
			"Readers that hold together have one fence, unless the disk is so full that the record of a new lock file cannot be written.",
			"Two names whose readable parts are equal and whose hashes agree in 42 bits share a file, because Symfony names files so: they exclude each other, and the error says so.",
			"A reboot frees every hold. Cool-downs go on by the wall clock, fences as the file has them.",
			"PHP and flock(1) do not know cool-downs and ignore them.",
			"Inspect and List read /proc/locks, and do not see other containers: then they return errors.ErrUnsupported. Without /proc/locks they try the lock for an instant.",
		},
	}
	if g.FIFO {
		g.Notes = append(g.Notes, "Waiters that use padlock get the lock in the order of their arrival; PHP and flock(1) do not stand in the queue.")
	}
	if c.access == world {
		g.SafeEviction = driver.Partly
		g.Notes = append(g.Notes, "Everybody can write to the directory: every user can hold and falsify any lock.")
	}
	if c.network {
		g.Notes = append(g.Notes, "On a network file system a broken connection can free a lock without notice, and other machines may not see the lock at all.")
	}
	return g
}
