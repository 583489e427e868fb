package history

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/driver/fast"
	"github.com/padlock-go/padlock/internal/recordfile"
)

// Log is a history of runs, kept in a directory, in a store, or in both. It is safe for concurrent
// use.
type Log struct {
	dir   *recordfile.Dir // nil if there is no directory
	place string
	store fast.Recorder // nil if no store keeps a history
}

// Open returns the history in a directory and in a store. Either may be missing: dir may be "" and
// store nil. A store without the ability [fast.Recorder] has no history. Open sends no request
// and makes no directory. The directory is made when the first run is written, and only this user
// may read it.
//
// The histories of several stores can be in one directory. The place is a text that tells the store
// from the others, such as its URL without secrets: the Log sees only runs that were written with
// the same place. Open ignores the place if the store itself keeps its history in the directory.
func Open(dir, place string, store driver.Store) *Log {
	l := &Log{place: place}
	switch {
	case store == nil:
	case keepsIn(store, dir):
		l.place = ""
	default:
		l.store, _ = driver.As[fast.Recorder](store)
	}
	if dir != "" {
		l.dir = &recordfile.Dir{Path: dir, Place: l.place}
	}
	return l
}

// keepsIn reports whether the store keeps its own history in the directory dir, as it does with the
// default directories of padlock. The Log then uses only the directory. Otherwise it would write
// each record to dir twice. If other users may write to the store's directory, keepsIn returns
// false.
func keepsIn(store driver.Store, dir string) bool {
	local, ok := driver.As[interface{ Dir() string }](store)
	if !ok || filepath.Clean(dir) != filepath.Join(local.Dir(), "history") {
		return false
	}
	const writableForOthers = 0o022 // with such permissions, the directory is for several users
	info, err := os.Stat(local.Dir())
	return err == nil && info.Mode().Perm()&writableForOthers == 0
}

// Runs returns the runs of name, the newest first. It returns at most MaxRuns runs that began and
// at most MaxRuns runs that were skipped. If the directory or the store cannot be read, Runs
// returns an error and the runs that it could read. For a name without runs, the error is nil.
func (l *Log) Runs(ctx context.Context, name string) ([]Run, error) {
	records, err := l.readRecords(ctx, name)
	return latest(records), err
}

// latest returns the runs among the records, at most MaxRuns of each series. The records are
// sorted, the newest first.
func latest(records []Run) []Run {
	var runs []Run
	counts := map[byte]int{}
	for i := range records {
		if series := records[i].ID[0]; (series == seriesRun[0] || series == seriesSkipped[0]) && counts[series] < MaxRuns {
			counts[series]++
			runs = append(runs, records[i])
		}
	}
	return runs
}

// readRecords returns all records of name, the newest first.
func (l *Log) readRecords(ctx context.Context, name string) ([]Run, error) {
	var both [][]fast.Record
	var errs []error
	if l.dir != nil {
		records, err := l.dir.Read(name)
		both, errs = append(both, records), append(errs, inDir(err))
	}
	if l.store != nil {
		records, err := l.store.Records(ctx, name)
		both, errs = append(both, records), append(errs, inStore(err))
	}
	return merge(name, both...), join(errs)
}

// maxNames is of how many names Jobs reads the records: those for which something was recorded last.
const maxNames = recordfile.MaxNames

// readAll returns the records of the names that begin with prefix, the newest first. If the directory
// or the store cannot be read, readAll returns an error and the records that it could read.
func (l *Log) readAll(ctx context.Context, prefix string) (map[string][]Run, error) {
	var dir, store map[string][]fast.Record
	var errs []error
	if l.dir != nil {
		found, err := l.dir.Newest(prefix, maxNames)
		dir, errs = found, append(errs, inDir(err))
	}
	if l.store != nil {
		found, err := l.store.Recorded(ctx, prefix, maxNames)
		store, errs = found, append(errs, inStore(err))
	}
	all := map[string][]Run{}
	for name := range dir {
		all[name] = merge(name, dir[name], store[name])
	}
	for name := range store {
		if all[name] == nil {
			all[name] = merge(name, store[name])
		}
	}
	return all, join(errs)
}

// merge returns the runs of name, the newest first. If there are different records of a run, it
// returns the one that contains the end of the run.
func merge(name string, all ...[]fast.Record) []Run {
	byID := map[string]Run{}
	for _, record := range slices.Concat(all...) {
		r, ok := decode(name, record)
		if before, known := byID[r.ID]; ok && (!known || r.End.After(before.End)) {
			byID[r.ID] = r
		}
	}
	var runs []Run
	for _, r := range byID {
		runs = append(runs, r)
	}
	sort.Slice(runs, func(i, j int) bool {
		a, b := &runs[i], &runs[j]
		return cmp.Or(b.Start.Compare(a.Start), strings.Compare(b.ID, a.ID)) < 0
	})
	return runs
}

// inDir returns an error that also says where err happened: in the history on this machine.
func inDir(err error) error {
	if err != nil {
		return fmt.Errorf("history of this machine: %w", err)
	}
	return nil
}

// inStore is like inDir, for an error of the store. If the error says that the store cannot keep a
// history, inStore returns nil.
func inStore(err error) error {
	if err != nil && !errors.Is(err, errors.ErrUnsupported) {
		return fmt.Errorf("history in the store: %w", err)
	}
	return nil
}

// join returns one error that wraps all errors in errs, or nil if there are none. Unlike the text
// of errors.Join, its text has only one line.
func join(errs []error) error {
	errs = slices.DeleteFunc(errs, func(err error) bool { return err == nil })
	switch len(errs) {
	case 0:
		return nil
	case 1:
		return errs[0]
	}
	return fmt.Errorf("%w; %w", errs[0], join(errs[1:]))
}

// Names returns the names that begin with prefix and have a history, sorted, as Jobs knows them. If
// the directory or the store cannot be read, Names returns an error and the names that it could read.
func (l *Log) Names(ctx context.Context, prefix string) ([]string, error) {
	all, err := l.readAll(ctx, prefix)
	return slices.Sorted(maps.Keys(all)), err
}

// Summary is the latest news of a name. A field is nil if the history has no such run.
type Summary struct {
	Name        string
	Place       string // of the Log
	Last        *Run   // the run that began last; not a skipped one
	LastSuccess *Run
	LastFailure *Run
	LastSkipped *Run
}

// summarize returns the latest of the runs, which are sorted, the newest first.
func summarize(name, place string, runs []Run) Summary {
	s := Summary{Name: name, Place: place}
	keep := func(place **Run, r *Run) {
		if *place == nil {
			*place = r
		}
	}
	for i := range runs {
		r := &runs[i]
		switch r.Outcome() {
		case Skipped:
			keep(&s.LastSkipped, r)
			continue
		case Success:
			keep(&s.LastSuccess, r)
		case Failure:
			keep(&s.LastFailure, r)
		}
		keep(&s.Last, r)
	}
	return s
}
