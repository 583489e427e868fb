package redisstore

import (
	"context"
	"errors"
	"strings"
	"sync"

	"github.com/padlock-go/padlock/driver"
	"github.com/redis/rueidis"
)

// mostExtended is the greatest number of leases that one script extends. A script for so many
// leases takes about a millisecond, and the server does nothing else during that time.
const mostExtended = 128

var bothBatchScripts = map[bool]func() *script{
	false: sync.OnceValue(func() *script { return newScript("slot_begin", "fast_extend_set", "extend_batch") }),
	true:  sync.OnceValue(func() *script { return newScript("slot_begin", "fast_extend_string", "extend_batch") }),
}

// ExtendBatch implements driver.BatchExtender with one request for up to 128 holds. In a cluster,
// it sends one request for each slot. A store with the option Replicas lacks this ability.
func (s *Store) ExtendBatch(ctx context.Context, holds []driver.Extension) ([]driver.Extended, error) {
	if s.guarantees.Lacks&driver.AbilityBatchExtender != 0 {
		return nil, errors.ErrUnsupported
	}
	for i := range holds {
		h := &holds[i]
		if err := driver.CheckHold(h.Name, h.Token, &s.guarantees); err != nil {
			return nil, err
		}
		if h.TTL != 0 {
			if err := driver.CheckTTL("TTL", h.TTL, &s.guarantees); err != nil {
				return nil, err
			}
		}
	}
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	c, err := s.readyClient(ctx, false)
	if err != nil {
		return nil, err
	}
	out := make([]driver.Extended, len(holds))
	s.extendBatches(ctx, c, holds, out)
	s.extendRest(ctx, c, holds, out)
	return out, nil
}

// textOfOne is roughly how many bytes of text the keys and arguments of one hold need. It only
// decides how much memory is reserved.
const textOfOne = 96

// batchOf is one part of a batch. Its holds are sent in one request.
type batchOf struct {
	index []int // the positions of the part's holds in the whole batch
	keys  []string
	args  []string
}

// batches divides holds into parts of at most mostExtended holds. In a cluster, all holds of a part
// are in the same slot.
func (s *Store) batches(holds []driver.Extension) (all []*batchOf) {
	room := min(len(holds), mostExtended)
	open := map[uint16]*batchOf{}
	var texts strings.Builder
	texts.Grow(len(holds) * textOfOne)
	for i := range holds {
		h := &holds[i]
		key, note := s.keys.pairIn(&texts, h.Name)
		var slot uint16
		if s.server.Cluster {
			slot, room = hashSlotOf(key), 1
		}
		b := open[slot]
		if b == nil || len(b.index) == mostExtended {
			b = &batchOf{make([]int, 0, room), make([]string, 0, 2*room), append(make([]string, 0, 1+2*room), s.keepArg)}
			open[slot] = b
			all = append(all, b)
		}
		b.index = append(b.index, i)
		b.keys = append(b.keys, key, note)
		token := h.Token
		if !s.config.strings {
			token = countedIn(&texts, token)
		}
		b.args = append(b.args, token, s.formats.ttl(h.TTL).lease)
	}
	return all
}

// extendBatches sends the fast scripts. A hold that needs the full script gets the error errSlow.
func (s *Store) extendBatches(ctx context.Context, c *connected, holds []driver.Extension, out []driver.Extended) {
	sc, all := bothBatchScripts[s.config.strings](), s.batches(holds)
	if len(all) == 1 {
		s.readExtended(ctx, all[0], sc.do(ctx, c, all[0].keys, all[0].args), out)
		return
	}
	cmds := make(rueidis.Commands, len(all))
	for i, b := range all {
		cmds[i] = sc.command(c, b.keys, b.args)
	}
	for i, resp := range c.DoMulti(ctx, cmds...) {
		if forgotten(resp) {
			resp = sc.do(ctx, c, all[i].keys, all[i].args)
		}
		s.readExtended(ctx, all[i], resp, out)
	}
}

var errSlow = errors.New("the full script is needed")

// readExtended reads the reply of a fast script that has extended the holds of b. It stores the
// result of each hold in out.
func (s *Store) readExtended(ctx context.Context, b *batchOf, resp rueidis.RedisResult, out []driver.Extended) {
	numbers, err := resp.AsIntSlice()
	switch {
	case err != nil:
		err = s.failure(ctx, err)
	case len(numbers) != 3*len(b.index):
		err = unreadable()
	}
	for i, at := range b.index {
		switch {
		case err != nil:
			out[at].Err = err
		case numbers[3*i] < 0:
			out[at].Err = errSlow
		default:
			n := numbers[3*i:]
			out[at].Grant = driver.Grant{Fence: s.callerFence(n[0]), TTL: s.lease(n[1]), Shared: n[2] == 1}
		}
	}
}

// mostSlow is the greatest number of leases that one run of the full script extends. The full
// script takes ten times as long for each lease as the fast script.
const mostSlow = 16

var bothSlowScripts = map[bool]func() *script{
	false: sync.OnceValue(func() *script { return newSlowScript("set") }),
	true:  sync.OnceValue(func() *script { return newSlowScript("string") }),
}

func newSlowScript(layout string) *script {
	return newScript("slot_begin", "prelude", layout, "publish", "queue", "extend", "extend_rest")
}

// slowBatches divides the holds that got errSlow into parts of at most mostSlow holds. In a
// cluster, all holds of a part are in the same slot.
func (s *Store) slowBatches(c *connected, holds []driver.Extension, out []driver.Extended) (all []*batchOf) {
	open := map[uint16]*batchOf{}
	for i := range out {
		if out[i].Err != errSlow {
			continue
		}
		h := &holds[i]
		keys := s.keys.lock(h.Name).allKeys()
		var slot uint16
		if s.server.Cluster {
			slot = hashSlotOf(keys[0])
		}
		b := open[slot]
		if b == nil || len(b.index) == mostSlow {
			b = &batchOf{args: []string{c.setting}}
			open[slot] = b
			all = append(all, b)
		}
		b.index = append(b.index, i)
		b.keys = append(b.keys, keys[:]...)
		b.args = append(b.args, h.Token, millis(h.TTL))
	}
	return all
}

// extendRest extends the holds that need the full script, such as shared holds. Usually there are
// few of them. But after a server has lost its data, all holds of the process need the full script.
// So each request extends several holds.
func (s *Store) extendRest(ctx context.Context, c *connected, holds []driver.Extension, out []driver.Extended) {
	all := s.slowBatches(c, holds, out)
	if len(all) == 0 {
		return
	}
	sc, cmds := bothSlowScripts[s.config.strings](), make(rueidis.Commands, len(all))
	for i, b := range all {
		cmds[i] = sc.command(c, b.keys, b.args)
	}
	for i, resp := range c.DoMulti(ctx, cmds...) {
		if forgotten(resp) {
			resp = sc.do(ctx, c, all[i].keys, all[i].args)
		}
		s.readFullReply(ctx, all[i], resp, out)
	}
}

// readFullReply reads the reply of a full script that has extended the holds of b. It stores the
// result of each hold in out.
func (s *Store) readFullReply(ctx context.Context, b *batchOf, resp rueidis.RedisResult, out []driver.Extended) {
	replies, err := resp.ToArray()
	switch {
	case err != nil:
		err = s.failure(ctx, err)
	case len(replies) != len(b.index):
		err = unreadable()
	}
	for i, at := range b.index {
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
