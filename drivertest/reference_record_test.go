package drivertest

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/driver/fast"
)

// recordsOf returns the records of name by ID. With a bug, each process has its own records.
func (s *ref) recordsOf(name string) map[string]string {
	if s.w.recs == nil {
		s.w.recs = map[string]map[string]string{}
	}
	if s.is(recordsPerProcess) {
		for i, o := range s.w.opens {
			if o == s {
				name += strings.Repeat("\x00", i+1)
			}
		}
	}
	if s.w.recs[name] == nil {
		s.w.recs[name] = map[string]string{}
	}
	return s.w.recs[name]
}

// Record implements fast.Recorder.
func (s *ref) Record(ctx context.Context, name string, rs []fast.Record) error {
	err := cmp.Or(driver.CheckName(name, &s.w.g), fast.CheckRecords(rs))
	if err != nil && !s.is(recordsOfAnyKind) {
		return err
	}
	return s.ask(ctx, func() error {
		of := s.recordsOf(name)
		for _, r := range rs {
			if _, known := of[r.ID]; !known || !s.is(recordsRepeat) {
				of[r.ID] = r.Text
			}
			s.trim(of, r.ID[:min(1, len(r.ID))])
		}
		if s.is(recordsTakeTheName) {
			e := s.w.entry(name)
			e.cooling = s.w.now().Add(driver.MaxTTL)
		}
		return nil
	})
}

// trim removes the records of a series that exceed its limit.
func (s *ref) trim(of map[string]string, series string) {
	if s.is(recordsShareABound) {
		series = ""
	}
	var ids []string
	for _, id := range slices.Sorted(maps.Keys(of)) {
		if strings.HasPrefix(id, series) {
			ids = append(ids, id)
		}
	}
	if s.is(recordsKeepTheFirst) {
		slices.Reverse(ids)
	}
	for len(ids) > fast.MaxRecords && !s.is(recordsGrow) {
		delete(of, ids[0])
		ids = ids[1:]
	}
}

// Records implements fast.Recorder.
func (s *ref) Records(ctx context.Context, name string) (rs []fast.Record, err error) {
	if err := driver.CheckName(name, &s.w.g); err != nil && !s.is(recordsOfAnyKind) {
		return nil, err
	}
	err = s.ask(ctx, func() error {
		of := s.recordsOf(name)
		for _, id := range slices.Sorted(maps.Keys(of)) {
			rs = append(rs, fast.Record{ID: id, Text: of[id]})
		}
		return nil
	})
	return rs, err
}

// Recorded implements fast.Recorder.
func (s *ref) Recorded(ctx context.Context, prefix string, most int) (all map[string][]fast.Record, err error) {
	err = s.ask(ctx, func() error {
		all = map[string][]fast.Record{}
		newest := map[string]string{}
		for name, of := range s.w.recs {
			if len(of) == 0 || !strings.HasPrefix(name, prefix) && !s.is(recordedAll) {
				continue
			}
			for _, id := range slices.Sorted(maps.Keys(of)) {
				all[name] = append(all[name], fast.Record{ID: id, Text: of[id]})
				newest[name] = max(newest[name], id[1:])
			}
		}
		names := slices.SortedFunc(maps.Keys(all), func(a, b string) int { return strings.Compare(newest[b], newest[a]) })
		if s.is(recordedOldest) {
			slices.Reverse(names)
		}
		for len(names) > most {
			delete(all, names[len(names)-1])
			names = names[:len(names)-1]
		}
		return nil
	})
	return all, err
}
