package rig

import (
	"slices"

	"github.com/padlock-go/padlock/lab/soak"
)

// Rows returns the table of stores, that of the rows with more work, and that of the rows with an
// older padlock.
func Rows() []Row {
	rows := storeRows()
	for _, w := range []struct {
		name string
		add  func(*soak.Load)
	}{{"questions", addQuestions}, {"paths", addPaths}, {"weights", addWeights}} {
		for _, row := range coreRows() {
			row.Name += ", with " + w.name
			row.build = loaded(row.build, w.add)
			rows = append(rows, row)
		}
	}
	return append(rows, mixedRows()...)
}

// mixedRows are the stores of the rows with an older padlock that is the last one that landed.
func mixedRows() (rows []Row) {
	for _, row := range coreRows() {
		if row.Name != "memory" { // its locks are those of one process
			row.Name += ", rolled out and back"
			row.build = rolledOut(row.build)
			rows = append(rows, row)
		}
	}
	return rows
}

// rolledOut adds a roll-out and a roll-back to a row. All workers begin as the padlock that landed last.
// One after the other is replaced by one of this tree, and then, one after the other, again by the
// older one. Of two servers of padlock, one is the older one.
func rolledOut(build func(*Site) (*setup, error)) func(*Site) (*setup, error) {
	return built(func(s *Site) *setup {
		s.mixed = true
		set, older := got(build(s)), s.buildCommit(landedCommit, chaosProgram)
		set.stages = slices.Repeat(set.stages[:1], 3)
		set.programs = [][]string{slices.Repeat([]string{older}, s.Workers), make([]string, s.Workers), slices.Repeat([]string{older}, s.Workers)}
		set.byAge()
		return set
	})
}
