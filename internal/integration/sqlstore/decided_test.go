package sqlstore_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit/decide"
	"github.com/padlock-go/padlock/stores/sqlstore"
)

// The statements for the usual steps decide in the server: take a free name, extend, release, pass
// and claim. TestStatementsDecideAlike writes random states into rows, lets the store make a step,
// and makes the same step with package decide. The answers must be the same, and so must be what
// the row says afterwards.
//
// The ends of leases are minutes away, so the test does not depend on how quick the machine is.
func TestStatementsDecideAlike(t *testing.T) {
	t.Parallel()
	for name, start := range databases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := start(t)
			tw := &twin{t: t, party: d.party(t), engine: d.engine, rand: rand.New(rand.NewPCG(1, 2)), alone: map[string]int{}}
			tw.noOwnSweep(t) // it would remove a row of a name that nobody has used
			for i := range 200 {
				tw.step(fmt.Sprint("name ", i))
			}
			want := []string{"acquire", "extend", "release", "claim", "pass"}
			if d.engine == sqlstore.MySQL {
				want = want[:3]
			}
			for _, what := range want {
				if tw.alone[what] < 3 {
					t.Errorf("%s was decided by one statement in %d cases: %v", what, tw.alone[what], tw.alone)
				}
			}
		})
	}
}

// A twin makes the same step in a row of the table and on a state.
type twin struct {
	t *testing.T
	*party
	engine sqlstore.Engine
	rand   *rand.Rand
	alone  map[string]int // how many steps a statement has decided that does not read the whole row

	name    string
	st      *decide.State
	at      decide.Now
	elapsed decide.Time // how long the store's step took at most
	log     string
}

// The unit in which states get older. Leases last for n units and a half.
const unit = 10 * time.Minute

func (tw *twin) lease() time.Duration { return time.Duration(tw.rand.IntN(4))*unit + unit/2 }

func (tw *twin) token() string { return string(rune('a' + tw.rand.IntN(5))) }

func instant(t decide.Time) decide.Now { return decide.Now{At: t, Wall: int64(t)} }

// randomState makes a state of a name in some steps, of which the last may be made now. If reserve
// is true and the name is free, it is reserved.
func (tw *twin) randomState(now decide.Time, reserve bool) *decide.State {
	s := &decide.State{}
	for back := tw.rand.IntN(7); back > 0; back-- {
		at := instant(now.Add(-time.Duration(back/2) * unit))
		s.Trim(at)
		r := driver.Request{Name: "n", Token: driver.TokenOf(tw.token()), TTL: tw.lease(), Shared: tw.rand.IntN(2) == 0}
		switch tw.rand.IntN(8) {
		case 7:
			_, _ = s.Break(s.Fence, at)
		case 0:
			if !s.Excludes(r.Token.Text(), r.Shared, at) {
				_, _ = s.Reserve(&r, at)
			}
		case 1:
			s.Release(r.Token.Text(), time.Duration(tw.rand.IntN(2))*tw.lease(), at)
		case 2:
			_, _, _ = s.Convert(&r, at)
		case 3:
			r.FenceAbove = uint64(now.Add(time.Duration(tw.rand.IntN(2)) * time.Hour))
			_, _ = s.Acquire(&r, at)
		default:
			_, _ = s.Acquire(&r, at)
		}
	}
	if reserve && !s.Excludes("", false, instant(now)) {
		_, _ = s.Reserve(&driver.Request{Token: driver.TokenOf(tw.token()), Shared: tw.rand.IntN(4) == 0}, instant(now))
	}
	// A reservation, an intent or a spent token that is alive lasts for minutes in the row, because
	// the test may be slow. Both sides shorten it when they read it.
	later := func(t *decide.Time) {
		if *t > now {
			*t = now.Add(unit / 2)
		}
	}
	for i := range s.Holds {
		if s.Holds[i].Reserved {
			later(&s.Holds[i].Until)
		}
	}
	for i := range s.Spent {
		later(&s.Spent[i].Until)
	}
	later(&s.Intent.Until)
	return s
}

// An answer is what a step returns.
type answer struct {
	driver.Grant
	out driver.Outcome
	err error
}

func (tw *twin) step(name string) {
	now := decide.Time(time.Now().UnixMicro())
	what := []string{"acquire", "acquire", "extend", "release", "release", "claim", "pass"}[tw.rand.IntN(7)]
	tw.name, tw.st = name, tw.randomState(now, what == "claim")
	tw.write(tw.st)
	before := text(tw.st)
	r := driver.Request{Name: name, Token: driver.TokenOf(tw.token()), TTL: tw.lease(), Shared: tw.rand.IntN(4) == 0}
	if n := len(tw.st.Holds); n > 0 && what != "acquire" {
		r.Token = driver.TokenOf(tw.st.Holds[n-1-tw.rand.IntN(2*n)/(n+1)].Token) // mostly the last one
	}
	if n := len(tw.st.Taken); n > 0 && what == "acquire" { // a token comes back after its hold was taken away
		r.Token = driver.TokenOf(tw.st.Taken[tw.rand.IntN(n)])
	}
	if tw.rand.IntN(3) == 0 {
		r.FenceAbove = uint64(now.Add(time.Duration(tw.rand.IntN(2)) * time.Hour))
	}
	keep := time.Duration(tw.rand.IntN(3)/2) * tw.lease()
	tw.log = fmt.Sprintf("%s of %+v, keep %v, on %s", what, r, keep, before)
	tw.st = parse(tw.t, before) // without the fields that no store writes
	tw.at = instant(decide.Time(time.Now().UnixMicro()))
	tw.st.Trim(tw.at)
	if h := tw.st.Live(r.Token.Text(), tw.at); what == "claim" && (h == nil || !h.Reserved) {
		what = "acquire"
	}
	got := tw.inStore(what, r, keep)
	tw.elapsed = decide.Time(time.Now().UnixMicro()) - tw.at.At
	want := inState(tw.st, what, r, keep, tw.at)
	tw.sameAnswer(what, got, want)
	tw.sameState(what)
	if tw.t.Failed() {
		tw.t.Fatal(tw.log)
	}
}

func (tw *twin) inStore(what string, r driver.Request, keep time.Duration) (a answer) {
	ctx := tw.t.Context()
	switch what {
	case "acquire":
		a.Grant, a.err = tw.store.Acquire(ctx, r)
	case "extend":
		a.Grant, a.err = tw.store.Extend(ctx, r.Name, r.Token.Text(), r.TTL)
	case "release":
		a.out, a.err = tw.store.Release(ctx, r.Name, r.Token.Text(), keep)
	case "claim":
		if a.Grant, a.err = tw.store.Wait(ctx, r, true); a.err != nil || a.TTL == 0 {
			tw.t.Errorf("Wait for a reservation that is there: %+v, %v", a.Grant, a.err)
		}
		if a.From == 0 { // Wait could not claim it in one statement
			a.Grant, a.err = tw.store.Acquire(ctx, r)
		}
	case "pass":
		next := driver.Request{Name: r.Name, Token: driver.TokenOf("next"), TTL: r.TTL, FenceAbove: r.FenceAbove}
		a.out, a.Grant, a.err = tw.store.Pass(ctx, r.Token.Text(), next)
	}
	return a
}

func inState(s *decide.State, what string, r driver.Request, keep time.Duration, at decide.Now) (a answer) {
	granted := func(h *decide.Hold, err error) {
		if a.err = err; err == nil {
			a.Fence, a.TTL = h.Fence, h.Until.Sub(at.At)
		}
	}
	switch what {
	case "acquire", "claim":
		granted(s.Acquire(&r, at))
	case "extend":
		granted(s.Extend(r.Token.Text(), r.TTL, at))
	case "release":
		a.out = s.Release(r.Token.Text(), keep, at)
	case "pass":
		next := driver.Request{Name: r.Name, Token: driver.TokenOf("next"), TTL: r.TTL, FenceAbove: r.FenceAbove}
		h := s.Live(r.Token.Text(), at)
		follows := h != nil && !h.Shared
		a.out = s.Release(r.Token.Text(), 0, at)
		if follows {
			granted(s.Acquire(&next, at))
			a.err = nil // the hold is released all the same
		}
	}
	return a
}

// near reports whether a time that the store has computed is what package decide computes. The
// clock of SQLite counts milliseconds.
func (tw *twin) near(got, want decide.Time) bool {
	const tick = 2000
	return got == want || got >= want-tick && got <= want+tw.elapsed+tick
}

func (tw *twin) sameFence(got, want uint64) bool {
	if want == uint64(tw.at.Wall) { // a new one, from the clock
		return tw.near(decide.Time(got), decide.Time(want))
	}
	return got == want
}

func (tw *twin) sameAnswer(what string, got, want answer) {
	tw.t.Helper()
	if g, w := kind(got.err), kind(want.err); g != w || got.out != want.out {
		tw.t.Errorf("outcome %v, %v; package decide: %v, %v", got.out, got.err, want.out, want.err)
	}
	if (got.TTL == 0) != (want.TTL == 0) || got.TTL > want.TTL+time.Millisecond {
		tw.t.Errorf("granted for %v, package decide: %v", got.TTL, want.TTL)
	}
	if what != "extend" && !tw.sameFence(got.Fence, want.Fence) {
		tw.t.Errorf("granted %+v, package decide: %+v; their fences differ", got, want)
	}
}

func kind(err error) error {
	for _, k := range []error{driver.ErrHeld, driver.ErrExpired, driver.ErrLost} {
		if errors.Is(err, k) {
			return k
		}
	}
	return err
}

// sameState compares what the row says with the state. A statement may leave in the row what has
// ended, so sameState compares live holds, and what the next request of each token returns.
func (tw *twin) sameState(what string) {
	tw.t.Helper()
	row, changed, untouched := tw.read()
	if changed && untouched {
		tw.alone[what]++
	}
	live := func(s *decide.State) []decide.Hold {
		s.Trim(tw.at)
		out := slices.Clone(s.Holds)
		out = slices.DeleteFunc(out, func(h decide.Hold) bool { return h.Until <= tw.at.At })
		slices.SortFunc(out, func(a, b decide.Hold) int { return strings.Compare(a.Token, b.Token) })
		return out
	}
	same := slices.EqualFunc(live(row()), live(tw.st), func(got, want decide.Hold) bool {
		return got.Token == want.Token && got.Shared == want.Shared && got.Reserved == want.Reserved && tw.sameFence(got.Fence, want.Fence) &&
			tw.near(got.Since, want.Since) && tw.near(got.Until, want.Until)
	})
	if got := row(); !same || !tw.sameFence(got.Fence, tw.st.Fence) || !tw.near(max(got.Cool, tw.at.At), max(tw.st.Cool, tw.at.At)) {
		tw.t.Errorf("the row has     %s\npackage decide: %s", text(got), text(tw.st))
	}
	for _, token := range []string{"a", "b", "c", "d", "e", "next", "new"} {
		for _, r := range []driver.Request{{Name: "n", Token: driver.TokenOf(token), TTL: unit}, {Name: "n", Token: driver.TokenOf(token), TTL: unit, Shared: true}} {
			got, want := tw.next(row(), r), tw.next(parse(tw.t, text(tw.st)), r)
			if got != want {
				tw.t.Errorf("%+v gets %v with the row, and %v with package decide; the row has\n%s\npackage decide:\n%s", r, got, want, text(row()), text(tw.st))
			}
		}
	}
}

// next returns the answers to requests that come next.
func (tw *twin) next(s *decide.State, r driver.Request) (answers [5]any) {
	s.Trim(tw.at)
	all := text(s)
	_, err := s.Acquire(&r, tw.at)
	answers[0] = kind(err)
	_, err = parse(tw.t, all).Extend(r.Token.Text(), 0, tw.at)
	answers[1] = kind(err)
	_, _, err = parse(tw.t, all).Convert(&r, tw.at)
	answers[2] = kind(err)
	s = parse(tw.t, all)
	answers[3] = s.Release(r.Token.Text(), 0, tw.at)
	answers[4] = s.Release(r.Token.Text(), 0, tw.at)
	return answers
}

func text(s *decide.State) string {
	b, err := json.Marshal(s)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

func parse(t *testing.T, text string) *decide.State {
	t.Helper()
	s := &decide.State{}
	noError(t, json.Unmarshal([]byte(text), s))
	return s
}

// The layout of the column "more", which older builds read too. Only a step that reads the whole
// row and writes it again loses the field Probe.
type moreText struct {
	Holds  []holdText  `json:"holds,omitempty"`
	Lost   []string    `json:"lost,omitempty"`
	Spent  []tokenText `json:"spent,omitempty"`
	Intent *tokenText  `json:"intent,omitempty"`
	Cool   decide.Time `json:"cool,omitempty"`
	Probe  bool        `json:"probe,omitempty"`
}

type holdText struct {
	Token    string      `json:"t"`
	Shared   bool        `json:"s,omitempty"`
	Reserved bool        `json:"r,omitempty"`
	Fence    uint64      `json:"f"`
	Since    decide.Time `json:"b"`
	Until    decide.Time `json:"u"`
}

type tokenText struct {
	Token string      `json:"t"`
	Until decide.Time `json:"u"`
}

func encoded(token string) string { return base64.RawStdEncoding.EncodeToString([]byte(token)) }

func (tw *twin) decoded(text string) string {
	b, err := base64.RawStdEncoding.DecodeString(text)
	noError(tw.t, err)
	return string(b)
}

func (tw *twin) exec(query string, args ...any) {
	tw.t.Helper()
	_, err := tw.db.Exec(tw.query(query), args...)
	noError(tw.t, err)
}

// query numbers the parameters if the engine wants that.
func (tw *twin) query(text string) string {
	for i := 1; tw.engine == sqlstore.PostgreSQL && strings.Contains(text, "?"); i++ {
		text = strings.Replace(text, "?", fmt.Sprint("$", i), 1)
	}
	return text
}

// write makes the rows of a name.
func (tw *twin) write(s *decide.State) {
	tw.t.Helper()
	var own decide.Hold
	more, busy, holder, reserved := moreText{Cool: s.Cool, Probe: true}, max(s.Cool, s.Intent.Until), "", 0
	for _, h := range s.Holds {
		if !h.Shared {
			own, holder = h, "{}"
			continue
		}
		busy = max(busy, h.Until)
		more.Holds = append(more.Holds, holdText{encoded(h.Token), h.Shared, h.Reserved, h.Fence, h.Since, h.Until})
	}
	for _, token := range s.Taken {
		more.Lost = append(more.Lost, encoded(token))
	}
	for _, p := range s.Spent {
		busy = max(busy, p.Until)
		more.Spent = append(more.Spent, tokenText{encoded(p.Token), p.Until})
	}
	if s.Intent.Token != "" {
		more.Intent = &tokenText{encoded(s.Intent.Token), s.Intent.Until}
	}
	if own.Reserved {
		reserved = 1
	}
	rest, err := json.Marshal(more)
	noError(tw.t, err)
	tw.exec("INSERT INTO padlock_locks (name, version, fence, token, reserved, since, until, least, holder, busy, more) VALUES (?, 1, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
		[]byte(tw.name), int64(s.Fence), []byte(own.Token), reserved, int64(own.Since), int64(own.Until), 0, holder, int64(busy), string(rest))
	if tw.engine != sqlstore.SQLite {
		tw.exec("INSERT INTO padlock_grants (name, fence, locked) VALUES (?, ?, 0)", []byte(tw.name), int64(s.Fence))
	}
}

// read returns what the row says, whether it was written since the test made it, and whether its
// column "more" was left as it was.
func (tw *twin) read() (state func() *decide.State, changed, untouched bool) {
	tw.t.Helper()
	var own decide.Hold
	var token []byte
	var rest string
	var version, reserved int
	s := &decide.State{}
	noError(tw.t, tw.db.QueryRow(tw.query("SELECT version, fence, token, reserved, since, until, more FROM padlock_locks WHERE name = ?"), []byte(tw.name)).
		Scan(&version, &s.Fence, &token, &reserved, &own.Since, &own.Until, &rest))
	if own.Token, own.Reserved, own.Fence = string(token), reserved != 0, s.Fence; own.Token != "" {
		s.Holds = append(s.Holds, own)
	}
	var more moreText
	if rest != "" {
		noError(tw.t, json.Unmarshal([]byte(rest), &more))
	}
	for _, h := range more.Holds {
		s.Holds = append(s.Holds, decide.Hold{Token: tw.decoded(h.Token), Shared: h.Shared, Reserved: h.Reserved, Fence: h.Fence, Since: h.Since, Until: h.Until})
	}
	for _, token := range more.Lost {
		s.Taken = append(s.Taken, tw.decoded(token))
	}
	for _, p := range more.Spent {
		s.Spent = append(s.Spent, decide.Spent{Token: tw.decoded(p.Token), Until: p.Until})
	}
	if more.Intent != nil {
		s.Intent = decide.Intent{Token: tw.decoded(more.Intent.Token), Until: more.Intent.Until}
	}
	s.Cool = more.Cool
	all := text(s)
	return func() *decide.State { return parse(tw.t, all) }, version > 1, more.Probe
}
