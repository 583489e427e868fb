package redisstore

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/driver/fast"
	"github.com/redis/rueidis"
)

// records returns the key of a name's records. The value at that key is a hash from the IDs of the
// records to their texts.
func (k *keyer) records(name string) string { return k.lock(name).stem + recordsMark + name }

const recordsMark = "r:"

// Record implements fast.Recorder. The records of a name expire when nothing has been recorded
// for that name during the time [fast.RecordKeep].
func (s *Store) Record(ctx context.Context, name string, records []fast.Record) error {
	if err := cmp.Or(driver.CheckName(name, &s.guarantees), fast.CheckRecords(records)); err != nil {
		return err
	}
	c, err := s.ready(ctx, false)
	if err != nil {
		return err
	}
	args := []string{strconv.Itoa(fast.MaxRecords), itoa(fast.RecordKeep.Milliseconds())}
	for _, r := range records {
		args = append(args, r.ID, r.Text)
	}
	if err := s.scripts.record.do(ctx, c, []string{s.keys.records(name)}, args).Error(); err != nil {
		return s.failure(ctx, err)
	}
	return nil
}

// Records implements fast.Recorder.
func (s *Store) Records(ctx context.Context, name string) ([]fast.Record, error) {
	if err := driver.CheckName(name, &s.guarantees); err != nil {
		return nil, err
	}
	c, err := s.ready(ctx, false)
	if err != nil {
		return nil, err
	}
	return s.recordsOf(ctx, s.scripts.records.do(ctx, c, []string{s.keys.records(name)}, nil))
}

// recordsOf returns the records in a reply, sorted by ID.
func (s *Store) recordsOf(ctx context.Context, reply rueidis.RedisResult) (records []fast.Record, err error) {
	flat, err := reply.AsStrSlice()
	if err != nil {
		return nil, s.failure(ctx, err)
	}
	for i := 0; i+1 < len(flat); i += 2 {
		records = append(records, fast.Record{ID: flat[i], Text: flat[i+1]})
	}
	sort.Slice(records, func(i, j int) bool { return records[i].ID < records[j].ID })
	return records, nil
}

// Recorded implements fast.Recorder. It scans all keys of the records, and reads them, in portions.
// The newest record of a name has the greatest ID after its first letter, which is its series.
func (s *Store) Recorded(ctx context.Context, prefix string, most int) (map[string][]fast.Record, error) {
	c, err := s.ready(ctx, false)
	if err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	pattern := glob(s.config.prefix+companionPrefix) + "???}" + recordsMark + glob(prefix) + "*"
	for _, node := range c.Nodes() {
		if err := s.scanRecords(ctx, node, pattern, seen); err != nil {
			return nil, err
		}
	}
	all, newest := map[string][]fast.Record{}, map[string]string{}
	for names := range slices.Chunk(slices.Collect(maps.Keys(seen)), 500) {
		calls := make([]scriptCall, len(names))
		for i, name := range names {
			calls[i].keys = []string{s.keys.records(name)}
		}
		for i, reply := range s.scripts.records.doAll(ctx, c, calls) {
			records, err := s.recordsOf(ctx, reply)
			if err != nil {
				return nil, err
			}
			all[names[i]] = records
			for _, r := range records {
				newest[names[i]] = max(newest[names[i]], r.ID[1:])
			}
		}
		if len(all) > most {
			byTime := slices.SortedFunc(maps.Keys(all), func(a, b string) int { return strings.Compare(newest[b], newest[a]) })
			for _, name := range byTime[most:] {
				delete(all, name)
			}
		}
	}
	maps.DeleteFunc(all, func(_ string, records []fast.Record) bool { return len(records) == 0 })
	return all, nil
}

func (s *Store) scanRecords(ctx context.Context, node rueidis.Client, pattern string, seen map[string]bool) error {
	for cursor := uint64(0); ; {
		e, err := node.Do(ctx, node.B().Scan().Cursor(cursor).Match(pattern).Count(1000).Type("hash").Build()).AsScanEntry()
		if err != nil {
			return s.failure(ctx, err)
		}
		for _, key := range e.Elements {
			if name, ok := s.keys.recordedName(key); ok {
				seen[name] = true
			}
		}
		if cursor = e.Cursor; cursor == 0 {
			return nil
		}
	}
}

// recordedName returns the name whose records are kept at key.
func (k *keyer) recordedName(key string) (string, bool) {
	rest, ok := strings.CutPrefix(key, k.prefix+companionPrefix)
	if !ok || len(rest) < 6 || rest[3:6] != "}"+recordsMark {
		return "", false
	}
	return rest[6:], true
}
