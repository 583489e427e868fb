package redisstore

import (
	"context"
	"errors"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/driver/fast"
	"github.com/redis/rueidis"
)

// mostExtended is the greatest number of leases that one script extends. A script for so many
// leases takes about a millisecond, and the server does nothing else during that time.
const mostExtended = 128

// ExtendBatch implements fast.BatchExtender with one request for up to 128 holds. In a cluster,
// it sends one request for each slot.
func (s *Store) ExtendBatch(ctx context.Context, holds []fast.Extension) ([]fast.Extended, error) {
	for i := range holds {
		h := &holds[i]
		if err := driver.CheckExtend(h.Name, h.Token.Text(), h.TTL, &s.guarantees); err != nil {
			return nil, err
		}
	}
	c, err := s.ready(ctx, false)
	if err != nil {
		return nil, err
	}
	out := make([]fast.Extended, len(holds))
	s.extendBatches(ctx, c, holds, out)
	s.extendRest(ctx, c, holds, out)
	return out, nil
}

// batches divides the holds at the positions which into parts of at most most holds. In a cluster,
// all holds of a part are in the same slot. A part is one run of a script, with this number of keys
// for each hold. It returns the parts, and the positions of the holds of each part.
func (s *Store) batches(holds []fast.Extension, which []int, most, keys int, first string) (calls []scriptCall, index [][]int) {
	open := map[uint16]int{} // the last part of each slot
	for _, i := range which {
		h := &holds[i]
		l := s.keys.lock(h.Name)
		var slot uint16
		if s.server.Cluster {
			slot = hashSlotOf(l.keys[0])
		}
		part, ok := open[slot]
		if !ok || len(index[part]) == most {
			part = len(calls)
			open[slot] = part
			calls, index = append(calls, scriptCall{args: []string{first}}), append(index, nil)
		}
		index[part] = append(index[part], i)
		a := &calls[part]
		a.keys, a.args = append(a.keys, l.keys[:keys]...), append(a.args, counted(h.Token.Text()), millis(h.TTL))
	}
	return calls, index
}

// extendBatches sends the fast scripts. A hold that needs the full script gets the error errSlow.
func (s *Store) extendBatches(ctx context.Context, c *connected, holds []fast.Extension, out []fast.Extended) {
	which := make([]int, len(holds))
	for i := range which {
		which[i] = i
	}
	calls, index := s.batches(holds, which, mostExtended, 2, millis(s.keep))
	for i, resp := range s.scripts.fastExtend.doAll(ctx, c, calls) {
		s.readExtended(ctx, index[i], resp, out)
	}
}

var errSlow = errors.New("the full script is needed")

// readExtended reads the reply of a fast script that has extended the holds at the positions index.
// It stores the result of each hold in out.
func (s *Store) readExtended(ctx context.Context, index []int, resp rueidis.RedisResult, out []fast.Extended) {
	numbers, err := resp.AsIntSlice()
	switch {
	case err != nil:
		err = s.failure(ctx, err)
	case len(numbers) != 2*len(index):
		err = unreadable()
	}
	for i, at := range index {
		switch {
		case err != nil:
			out[at].Err = err
		case numbers[2*i] < 0:
			out[at].Err = errSlow
		default:
			out[at].Grant = driver.Grant{Fence: s.callerFence(numbers[2*i]), TTL: s.lease(numbers[2*i+1])}
		}
	}
}

// mostSlow is the greatest number of leases that one run of the full script extends. The full
// script takes ten times as long for each lease as the fast script.
const mostSlow = 16

// extendRest extends the holds that need the full script, such as shared holds. Usually there are
// few of them. But after a server has lost its data, all holds of the process need the full script.
// So each request extends several holds.
func (s *Store) extendRest(ctx context.Context, c *connected, holds []fast.Extension, out []fast.Extended) {
	var which []int
	for i := range out {
		if out[i].Err == errSlow {
			which = append(which, i)
		}
	}
	if len(which) == 0 {
		return
	}
	calls, index := s.batches(holds, which, mostSlow, 6, c.setting)
	for i, resp := range s.scripts.extend.doAll(ctx, c, calls) {
		s.readFullReply(ctx, index[i], resp, out)
	}
}

// readFullReply reads the reply of a full script that has extended the holds at the positions
// index. It stores the result of each hold in out.
func (s *Store) readFullReply(ctx context.Context, index []int, resp rueidis.RedisResult, out []fast.Extended) {
	replies, err := resp.ToArray()
	switch {
	case err != nil:
		err = s.failure(ctx, err)
	case len(replies) != len(index):
		err = unreadable()
	}
	for i, at := range index {
		out[at].Err = err
		if err != nil {
			continue
		}
		parts, failed := replies[i].ToArray()
		a, failed := s.answerOf(ctx, parts, failed)
		if failed == nil {
			out[at].Grant, failed = s.grant(&a)
		}
		out[at].Err = failed
	}
}
