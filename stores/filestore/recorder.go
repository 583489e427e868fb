package filestore

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/driver/fast"
	"github.com/padlock-go/padlock/internal/recordfile"
)

// recordDir is the name of the directory that has the records. It is in the directory of the locks.
const recordDir = "history"

// records returns the directory of the records. There are no records in a directory that every user
// may write to, because any user could make and remove the records of others.
func (s *Store) records(ctx context.Context) (recordfile.Dir, error) {
	if err := s.checkUsable(ctx); err != nil {
		return recordfile.Dir{}, err
	}
	if s.guarantees.Lacks&driver.AbilityRecorder != 0 {
		return recordfile.Dir{}, fmt.Errorf("a history in a directory for all users (world=yes): %w", errors.ErrUnsupported)
	}
	return recordfile.Dir{Path: filepath.Join(s.dir, recordDir), Group: s.config.access == group}, nil
}

// Record implements fast.Recorder. It keeps the records of [recordfile.MaxNames] names.
func (s *Store) Record(ctx context.Context, name string, records []fast.Record) error {
	if err := s.checkRecords(name, records); err != nil {
		return err
	}
	dir, err := s.records(ctx)
	if err == nil {
		err = s.recordFailure(dir.Write(name, records))
	}
	return err
}

func (s *Store) checkRecords(name string, records []fast.Record) error {
	if err := driver.CheckName(name, &s.guarantees); err != nil {
		return err
	}
	return fast.CheckRecords(records)
}

// Records implements fast.Recorder.
func (s *Store) Records(ctx context.Context, name string) ([]fast.Record, error) {
	if err := driver.CheckName(name, &s.guarantees); err != nil {
		return nil, err
	}
	dir, err := s.records(ctx)
	if err != nil {
		return nil, err
	}
	records, err := dir.Read(name)
	return records, s.recordFailure(err)
}

// Recorded implements fast.Recorder.
func (s *Store) Recorded(ctx context.Context, prefix string, most int) (map[string][]fast.Record, error) {
	dir, err := s.records(ctx)
	if err != nil {
		return nil, err
	}
	all, err := dir.Newest(prefix, most)
	return all, s.recordFailure(err)
}

func (s *Store) recordFailure(err error) error {
	if err == nil {
		return nil
	}
	return unavailable(filepath.Join(s.dir, recordDir), err)
}
