package mongostore

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/padlock-go/padlock/driver"
)

// instant is the server's time in these tests.
const instant = bson.DateTime(1_800_000_000_000)

const fenceNow = int64(instant) * 1000

// written returns a document with holds of padlock.
func written(token string, until bson.DateTime, fence int64, holds ...bson.D) bson.D {
	all := bson.A{}
	for _, h := range holds {
		all = append(all, h)
	}
	return bson.D{{Key: "token", Value: token}, {Key: "expires_at", Value: until}, {Key: "now", Value: instant}, {Key: "padlock", Value: bson.D{
		{Key: "v", Value: int32(1)}, {Key: "token", Value: token}, {Key: "until", Value: until}, {Key: "fence", Value: fence}, {Key: "holds", Value: all},
	}}}
}

func held(token string, left int, fence int64, shared bool) bson.D {
	return bson.D{{Key: "t", Value: text(token)}, {Key: "s", Value: shared}, {Key: "f", Value: fence}, {Key: "b", Value: instant - 5},
		{Key: "u", Value: instant + bson.DateTime(left)}, {Key: "h", Value: holderFields(&driver.Holder{Host: "h", PID: 3, Plan: time.Minute})}}
}

func changed(d bson.D, name string, v any) bson.D {
	d = slices.Clone(d)
	for i := range d {
		if d[i].Key == name {
			d[i].Value = v
		}
	}
	return d
}

func read(t *testing.T, d bson.D) *state {
	t.Helper()
	raw, err := bson.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	s, err := decode(raw)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// For the token "mine", each of these documents has another meaning.
func TestDocuments(t *testing.T) {
	mine := written("mine", instant+50, fenceNow, held("mine", 50, fenceNow, false))
	for name, c := range map[string]struct {
		doc     bson.D
		extend  error // of Extend
		release driver.Outcome
		foreign bool // another program holds the name
		others  int  // holds that are in the way of another token
	}{
		"live":                          {mine, nil, driver.OutcomeReleased, false, 1},
		"at its end":                    {written("mine", instant, fenceNow, held("mine", 0, fenceNow, false)), driver.ErrExpired, driver.OutcomeExpired, false, 0},
		"lapsed, then others came":      {written("", instant, fenceNow+1, held("mine", -1, fenceNow, false)), driver.ErrLost, driver.OutcomeTaken, false, 0},
		"never held":                    {written("", instant, fenceNow), driver.ErrLost, driver.OutcomeGone, false, 0},
		"others hold it":                {written("other", instant+50, fenceNow, held("other", 50, fenceNow, false)), driver.ErrLost, driver.OutcomeGone, false, 1},
		"one of two readers":            {written(nobodyToken, instant+50, fenceNow, held("mine", 50, fenceNow, true), held("other", 50, fenceNow, true)), nil, driver.OutcomeReleased, false, 2},
		"PHP took it":                   {changed(mine, "token", "php"), driver.ErrLost, driver.OutcomeGone, true, 1},
		"PHP extended it by this token": {changed(mine, "expires_at", instant+99), nil, driver.OutcomeReleased, true, 1},
		"PHP's lease has ended":         {changed(changed(mine, "token", "php"), "expires_at", instant), driver.ErrLost, driver.OutcomeGone, false, 0},
		"PHP's own document":            {bson.D{{Key: "token", Value: "php"}, {Key: "expires_at", Value: instant + 1}, {Key: "now", Value: instant}}, driver.ErrLost, driver.OutcomeGone, true, 1},
		"PHP's own, by its token":       {bson.D{{Key: "token", Value: "mine"}, {Key: "expires_at", Value: instant}, {Key: "now", Value: instant}}, driver.ErrLost, driver.OutcomeGone, false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := read(t, c.doc)
			if _, err := s.held("mine"); err != c.extend {
				t.Errorf("Extend: %v, want %v", err, c.extend)
			}
			if got := s.releaseOutcome("mine"); got != c.release {
				t.Errorf("Release: %v, want %v", got, c.release)
			}
			reports := s.holdsExcept("")
			isForeign := func(h driver.Hold) bool { return h.Foreign }
			if len(reports) != c.others || slices.ContainsFunc(reports, isForeign) != c.foreign {
				t.Errorf("holds: %+v; want %d, foreign %v", reports, c.others, c.foreign)
			}
		})
	}
}

// PHP's token in a document keeps the fence that padlock had there.
func TestFenceOutlivesForeignHolds(t *testing.T) {
	s := read(t, changed(written("mine", instant+50, fenceNow+7, held("mine", 50, fenceNow+7, false)), "token", "php"))
	if s.Record.Fence != fenceNow+7 || s.next(0) != uint64(fenceNow+8) {
		t.Errorf("fence %d, next %d", s.Record.Fence, s.next(0))
	}
}

// After a refused try, the document shows the reason of the refusal.
func TestRefusals(t *testing.T) {
	free := written("", instant, fenceNow)
	others := written("other", instant+50, fenceNow, held("other", 50, fenceNow, false))
	readers := written(nobodyToken, instant+50, fenceNow, held("mine", 50, fenceNow, true), held("other", 50, fenceNow, true))
	last := written("mine", instant+50, driver.MaxFence-1, held("mine", 50, driver.MaxFence-1, true))
	wants := slices.Clone(readers)
	wants[3].Value = append(slices.Clone(wants[3].Value.(bson.D)), bson.E{Key: "intent", Value: bson.D{{Key: "t", Value: "other"}, {Key: "u", Value: instant + 9}}})
	r := driver.Request{Name: "n", Token: driver.TokenOf("mine")}
	adopts := driver.Request{Name: "n", Token: driver.TokenOf("new"), Replaces: driver.TokenOf("mine")}
	for name, c := range map[string]struct {
		doc  bson.D
		r    driver.Request
		try  func(s *state, r *driver.Request) (driver.Grant, error)
		want error
	}{
		"held":                       {others, r, (*state).acquireResult, driver.ErrHeld},
		"fences used up":             {written("", instant, driver.MaxFence-1), r, (*state).acquireResult, driver.ErrFencesUsedUp},
		"nothing to replace":         {free, adopts, (*state).acquireResult, driver.ErrLost},
		"replace without fences":     {last, adopts, (*state).acquireResult, driver.ErrFencesUsedUp},
		"promotion among readers":    {readers, r, (*state).convertResult, driver.ErrHeld},
		"promotion after another":    {wants, r, (*state).convertResult, driver.ErrPromotionConflict},
		"promotion without fences":   {last, r, (*state).convertResult, driver.ErrFencesUsedUp},
		"promotion of a lost hold":   {others, r, (*state).convertResult, driver.ErrLost},
		"promotion of an ended hold": {written("mine", instant, fenceNow, held("mine", 0, fenceNow, true)), r, (*state).convertResult, driver.ErrExpired},
	} {
		if _, err := c.try(read(t, c.doc), &c.r); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

func TestEvicted(t *testing.T) {
	s := read(t, written("other", instant+50, fenceNow, held("other", 50, fenceNow, false)))
	if fence, err := s.evictResult(uint64(fenceNow)); err != nil || fence != uint64(fenceNow)+1 {
		t.Errorf("%d, %v", fence, err)
	}
	if _, err := s.evictResult(uint64(fenceNow) - 1); err != driver.ErrLost {
		t.Errorf("with an old fence: %v", err)
	}
	if _, err := read(t, written("", instant, 0)).evictResult(0); err != driver.ErrLost {
		t.Errorf("a free name: %v", err)
	}
	php := bson.D{{Key: "token", Value: "php"}, {Key: "expires_at", Value: instant + 1}, {Key: "now", Value: instant}}
	if fence, err := read(t, php).evictResult(0); err != nil || fence != uint64(fenceNow) {
		t.Errorf("PHP's hold: %d, %v", fence, err)
	}
}

func TestFollowing(t *testing.T) {
	for prefix, want := range map[string]string{"": "", "a": "b", "ab\x7f": "ab\u0080", "\ud7ff": "\ue000", "a\U0010ffff": "b", "\U0010ffff": ""} {
		got := afterPrefix(prefix)
		if got != want || want != "" && strings.Compare(prefix+"\U0010ffff", got) >= 0 {
			t.Errorf("following(%q) = %q, want %q", prefix, got, want)
		}
	}
}

func TestText(t *testing.T) {
	for _, s := range []string{"job", "$job", "", "a\x00b", "\xff\xfe", "é"} {
		raw, err := bson.Marshal(bson.D{{Key: "v", Value: text(s)}})
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := fromText(bson.Raw(raw).Lookup("v")); got != s || !ok {
			t.Errorf("%q becomes %q, %v", s, got, ok)
		}
	}
}

// A document that is no lock is refused, and the error names it.
func TestDocumentOfAnotherProgram(t *testing.T) {
	for _, d := range []bson.D{
		{{Key: "_id", Value: "job"}},
		{{Key: "_id", Value: "job"}, {Key: "token", Value: 7}, {Key: "expires_at", Value: instant}},
		{{Key: "_id", Value: "job"}, {Key: "token", Value: "t"}},
		{{Key: "_id", Value: "job"}, {Key: "expires_at", Value: instant}},
	} {
		raw, err := bson.Marshal(append(d, bson.E{Key: "now", Value: instant}))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := decode(raw); !errors.Is(err, driver.ErrUnavailable) || !strings.Contains(err.Error(), `"job" is not a lock`) {
			t.Errorf("%v: %v", d, err)
		}
	}
}
