// Package linear checks whether the history of each name is correct. A history is correct if its
// operations could also have run one after the other, in some order, with the same results. The
// package cuts histories into pieces and defines what a lock may do. The library porcupine looks
// for an order of the operations.
//
// The model has no time, but leases expire. So the package adds one operation to every hold whose
// release was not confirmed: the end of the hold. No caller makes this operation. It may happen at
// any time after the holder stopped relying on the hold, or never. Refused acquires are left out,
// because they change nothing.
package linear

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/padlock-go/padlock/lab/soak"
)

// Judge makes the report of a run, with porcupine's verdict. If a promise was broken, it keeps the
// history in the directory dir, unless that is empty.
func Judge(r *soak.Run, o *soak.Outcome, dir string, limit time.Duration) (*soak.Report, error) {
	p, err := soak.NewReport(r, o), error(nil)
	p.Verdict, err = Check(o.Events, dir, limit)
	if err == nil && dir != "" && (p.Sum() > 0 || p.Verdict.Illegal > 0) {
		p.History, err = dir, keep(dir, o.Events)
	}
	return p, err
}

// maxPieceTime is the time limit for one piece.
const maxPieceTime = 5 * time.Second

var model = porcupine.Model{
	Init: func() any { return state{} },
	Step: func(s, input, _ any) (bool, any) {
		ok, next := input.(op).step(s.(state))
		return ok, next
	},
	Equal:             func(a, b any) bool { return a.(state).equal(b.(state)) },
	DescribeOperation: func(input, _ any) string { return input.(op).String() },
	DescribeState:     func(s any) string { return s.(state).String() },
}

// Check cuts the history of each name into pieces, and examines the pieces. Pictures
// of up to three illegal pieces are written to the directory dir, unless dir is empty. When the
// time limit has passed, Check stops, and the pieces that remain are unknown.
func Check(events []soak.Event, dir string, limit time.Duration) (soak.Verdict, error) {
	var v soak.Verdict
	end := time.Now().Add(limit)
	regrant := soak.PromisesOf(events).Regrants
	byName := map[string][]*soak.Hold{}
	for _, h := range soak.Holds(events) {
		byName[h.Name] = append(byName[h.Name], h)
	}
	for name, holds := range byName {
		for _, piece := range cutPieces(holds, regrant) {
			v.Operations += len(piece)
			rest := min(maxPieceTime, time.Until(end))
			if rest <= 0 {
				v.Unknown++
				continue
			}
			if err := add(&v, name, piece, dir, rest); err != nil {
				return v, err
			}
		}
	}
	return v, nil
}

func add(v *soak.Verdict, name string, piece []porcupine.Operation, dir string, rest time.Duration) error {
	switch porcupine.CheckOperationsTimeout(model, piece, rest) {
	case porcupine.Ok:
		v.OK++
		return nil
	case porcupine.Unknown:
		v.Unknown++
		return nil
	}
	v.Illegal++
	v.Names = append(v.Names, name)
	if dir == "" || v.Illegal > 3 {
		return nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	f, err := os.Create(filepath.Join(dir, fmt.Sprintf("illegal-%d.html", v.Illegal)))
	if err != nil {
		return err
	}
	defer f.Close()
	_, info := porcupine.CheckOperationsVerbose(model, piece, rest)
	return porcupine.Visualize(model, info, f)
}

// keep writes a history into a directory.
func keep(dir string, events []soak.Event) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(dir, "history.jsonl"), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(soak.WriteHistory(f, events), f.Close())
}

// cutPieces turns the holds on one name into operations. It cuts the list of operations into
// pieces, at times at which the name is certainly free.
func cutPieces(holds []*soak.Hold, regrant bool) [][]porcupine.Operation {
	var all []porcupine.Operation
	for _, h := range holds {
		all = append(all, operations(h, regrant)...)
	}
	sort.Slice(all, func(i, j int) bool { return all[i].Call < all[j].Call })
	var cut [][]porcupine.Operation
	var c cutter
	c.reset()
	for _, o := range all {
		if c.isFree(o.Call) {
			cut = append(cut, setPrevFences(c.piece))
			c.reset()
		}
		c.add(o)
	}
	return append(cut, setPrevFences(c.piece))
}

// cutter records whether a call or a hold is under way.
type cutter struct {
	piece []porcupine.Operation
	busy  int64           // a call is under way until this time
	live  map[int64]int64 // time of grant, by hold
}

func (c *cutter) reset() { *c = cutter{live: map[int64]int64{}} }

// minPiece is the minimum number of operations in a piece.
const minPiece = 20

func (c *cutter) isFree(at int64) bool {
	return len(c.piece) >= minPiece && c.busy < at && len(c.live) == 0
}

func (c *cutter) add(o porcupine.Operation) {
	c.piece = append(c.piece, o)
	in := o.Input.(op)
	if o.Return != math.MaxInt64 {
		c.busy = max(c.busy, o.Return)
	}
	switch in.action {
	case grant, adopt:
		delete(c.live, in.other)
		if !in.shared { // an exclusive grant: all earlier holders are gone
			for id, since := range c.live {
				if since < o.Return {
					delete(c.live, id)
				}
			}
		}
		c.live[in.hold] = o.Return
	case release:
		delete(c.live, in.hold)
	}
}

// setPrevFences sets op.prevFence in all operations of the piece that have a fence.
func setPrevFences(piece []porcupine.Operation) []porcupine.Operation {
	var fences []uint64
	for _, o := range piece {
		if f := o.Input.(op).fence; f != 0 {
			fences = append(fences, f)
		}
	}
	slices.Sort(fences)
	fences = slices.Compact(fences)
	for i := range piece {
		in := piece[i].Input.(op)
		if n, _ := slices.BinarySearch(fences, in.fence); in.fence != 0 && n > 0 {
			in.prevFence = fences[n-1]
			piece[i].Input = in
		}
	}
	return piece
}

// operations returns the operations of a hold.
func operations(h *soak.Hold, regrant bool) []porcupine.Operation {
	var out []porcupine.Operation
	add := func(o op, call, ret int64) {
		o.hold, o.regrant = h.ID, regrant
		out = append(out, porcupine.Operation{ClientId: h.Worker, Input: o, Call: call, Return: ret})
	}
	// The store may end a hold when the holder no longer relies on it. The history gets an
	// operation for this. The time of that operation must be later than the beginning of the
	// acquire, so that cutPieces does not put the two operations into different pieces.
	end := h.Call + 1
	if n := len(h.Spans); n > 0 {
		end = max(end, h.Spans[n-1].To)
	}
	evicted := false
	for _, e := range h.Events {
		switch {
		case e.Op == soak.Acquired:
			add(op{action: grant, shared: e.Shared, fence: e.Fence}, e.Call, e.At)
		case e.Op == soak.Adopted:
			add(op{action: adopt, other: e.Other, shared: e.Shared, fence: e.Fence}, e.Call, e.At)
		case e.Op == soak.Demoted && e.Err != "":
			add(op{action: weaken}, e.Call, math.MaxInt64)
		case e.Err != "":
		case e.Op == soak.Verified:
			add(op{action: verify}, e.Call, e.At)
		case e.Op == soak.Promoted:
			add(op{action: promote, fence: e.Fence}, e.Call, e.At)
		case e.Op == soak.Demoted:
			add(op{action: demote, shared: true}, e.Call, e.At)
		case e.Op == soak.Evicted:
			evicted = true
			add(op{action: release}, e.Call, e.At)
		case e.Op == soak.Released && !evicted: // after Break, the hold cannot end again
			add(op{action: release}, e.Call, e.At)
		}
		if converted := e.Op == soak.Promoted || e.Op == soak.Demoted; converted && regrant {
			end = min(end, e.Call)
			add(op{action: expire}, e.Call, math.MaxInt64)
		}
	}
	if h.BegunOp == soak.Demoted {
		add(op{action: weaken}, h.Begun, math.MaxInt64)
	}
	if h.Ends == 0 {
		add(op{action: expire}, end, math.MaxInt64)
	}
	return out
}
