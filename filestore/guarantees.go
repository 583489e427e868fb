package filestore

import "github.com/padlock-go/padlock/driver"

// Guarantees says what this store promises; see docs/stores/file.md.
func (s *Store) Guarantees() driver.Guarantees { return s.guarantees }

func promise(c *config, dir string) driver.Guarantees {
	g := driver.Guarantees{
		Store:            "file",
		SurvivesRestart:  driver.No,
		SurvivesFailover: driver.No,
		SafeClockJump:    driver.Yes,
		SafeEviction:     driver.Yes,
		Bound:            driver.ToProcess,
		Fence:            driver.DurableFence,
		SharedFence:      driver.Partly,
		Shared:           true,
		Promotion:        driver.Regrant,
		FIFO:             inOrder(c, dir),
		CoolDown:         true,
		Notes: []string{
			"All parties run on one machine and mean the same directory.",
			"Removing a lock file, or its directory, while it is held frees the name: keep cleaners of temporary files away. The holder notices within 2.2 seconds, or at once when it asks.",
			"Readers that hold together have one fence, unless the disk is so full that the record of a new lock file cannot be written.",
			"Two names whose readable parts are equal and whose hashes agree in 42 bits share a file, because Symfony names it so: they exclude each other, and the error says so.",
			"A reboot frees every hold; cool-downs go on by the wall clock, fences by the file.",
			"Cool-downs do not hold against PHP and flock(1), which know none.",
			"Inspect and List read /proc/locks, and in a container they cannot know of other containers: then they answer errors.ErrUnsupported. Where there is no /proc/locks they try the lock for an instant.",
		},
	}
	if g.FIFO {
		g.Notes = append(g.Notes, "Waiters get their turn in order of arrival among padlock's own; PHP and flock(1) do not stand in the queue.")
	}
	if c.access == world {
		g.SafeEviction = driver.Partly
		g.Notes = append(g.Notes, "Everybody can write to the directory: others can hold and falsify any lock.")
	}
	if c.network {
		g.Notes = append(g.Notes, "On a network file system a broken connection can free a lock unnoticed, and other machines may not see it at all.")
	}
	return g
}
