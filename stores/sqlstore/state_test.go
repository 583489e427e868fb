package sqlstore

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit/decide"
)

// A script works on one state with a made-up clock.
type script struct {
	t   *testing.T
	st  *state
	now decide.Time
}

func newScript(t *testing.T) *script { return &script{t, &state{}, 1_800_000_000_000_000} }

// passTime lets time pass.
func (s *script) passTime(d time.Duration) *script { s.now = s.now.Add(d); return s }

func asks(token string) *driver.Request {
	return &driver.Request{Name: "name", Token: driver.TokenOf(token), TTL: 10 * time.Second, Shared: strings.HasPrefix(token, "r")}
}

// acquire makes one try and checks that it returns the error wantErr.
func (s *script) acquire(token string, wantErr error) *script {
	s.t.Helper()
	s.st.trim(s.now)
	_, err := s.st.acquire(asks(token), s.now)
	if !errors.Is(err, wantErr) {
		s.t.Errorf("acquire %s: %v, want %v", token, err, wantErr)
	}
	if err == nil { // a try that failed writes nothing
		s.st.handOver(s.now)
	}
	return s
}

func (s *script) release(token string, want driver.Outcome) *script {
	s.t.Helper()
	s.st.trim(s.now)
	if out := s.st.release(token, 0, s.now); out != want {
		s.t.Errorf("release %s: outcome %d, want %d", token, out, want)
	}
	s.st.handOver(s.now)
	return s
}

// join gives places to waiters that poll.
func (s *script) join(tokens ...string) *script { return s.line("", tokens) }

// joinPushed gives places to waiters that the database wakes.
func (s *script) joinPushed(tokens ...string) *script { return s.line("channel", tokens) }

func (s *script) line(push string, tokens []string) *script {
	for _, token := range tokens {
		s.st.trim(s.now)
		s.st.join(asks(token), push, s.now)
		s.st.handOver(s.now)
	}
	return s
}

// mustBe compares the holds (token, with ! if reserved, with ~ if lapsed) and the places of the
// state with the expected ones. It leaves out what the next trim removes.
func (s *script) mustBe(want string) *script {
	s.t.Helper()
	var have []string
	for _, h := range s.st.Holds {
		if h.Reserved && h.Until <= s.now {
			continue
		}
		text := h.Token
		if h.Reserved {
			text += "!"
		}
		if h.Until <= s.now {
			text += "~"
		}
		have = append(have, text)
	}
	have = append(have, "|")
	for _, p := range s.st.queue {
		if p.Until > s.now {
			have = append(have, string(p.Token))
		}
	}
	if got := strings.Join(have, " "); got != want {
		s.t.Errorf("the state is %q, want %q", got, want)
	}
	return s
}

const (
	lease = 10 * time.Second // the TTL of the requests
	claim = driver.MaxReservation
)

// TestEdges goes along each edge of the states of a hold, a reservation and a place.
//
//	hold         granted -> released | lapsed -> Expired | lost -> Taken | spent
//	reservation  made -> claimed | given up | lapsed -> the next
//	place        taken -> first -> the name | given up | lapsed
func TestEdges(t *testing.T) {
	for what, run := range map[string]func(s *script){
		"a hold is released": func(s *script) {
			s.acquire("a", nil).mustBe("a |").acquire("b", driver.ErrHeld).release("a", driver.OutcomeReleased).mustBe("|").acquire("b", nil)
		},
		"a hold lapses and nobody comes": func(s *script) {
			s.acquire("a", nil).passTime(lease).mustBe("a~ |").release("a", driver.OutcomeExpired).mustBe("|")
		},
		"a hold lapses and another comes": func(s *script) {
			s.acquire("a", nil).passTime(lease).acquire("b", nil).mustBe("b |").release("a", driver.OutcomeTaken).release("a", driver.OutcomeGone)
		},
		"a token that was released is spent": func(s *script) {
			s.release("a", driver.OutcomeGone).acquire("a", driver.ErrLost).passTime(decide.SpentFor).acquire("a", nil)
		},
		"a token is repeated": func(s *script) {
			s.acquire("a", nil)
			fence := s.st.Fence
			s.passTime(time.Second).acquire("a", nil).mustBe("a |")
			if s.st.Fence != fence {
				s.t.Error("a repeat minted a fence")
			}
		},
	} {
		t.Run(what, func(t *testing.T) { run(newScript(t)) })
	}
}

// TestQueueEdges goes along the edges of places and reservations.
func TestQueueEdges(t *testing.T) {
	for what, run := range map[string]func(s *script){
		"readers share, a writer waits": func(s *script) {
			s.acquire("r1", nil).acquire("r2", nil).acquire("w", driver.ErrHeld).join("w").acquire("r3", driver.ErrHeld)
			s.release("r1", driver.OutcomeReleased).acquire("w", driver.ErrHeld).release("r2", driver.OutcomeReleased).acquire("w", nil).mustBe("w |")
		},
		"the first in the queue comes": func(s *script) {
			s.acquire("a", nil).join("b", "c").release("a", driver.OutcomeReleased).acquire("c", driver.ErrHeld).acquire("d", driver.ErrHeld).acquire("b", nil).mustBe("b | c")
		},
		"the first does not come": func(s *script) {
			s.acquire("a", nil).join("b", "c").release("a", driver.OutcomeReleased).passTime(claim-1).acquire("c", driver.ErrHeld)
			s.passTime(time.Millisecond).acquire("d", driver.ErrHeld).acquire("c", nil).mustBe("c |")
		},
		"the lease ends and the first does not come": func(s *script) {
			s.acquire("a", nil).join("b", "c").passTime(lease).acquire("c", driver.ErrHeld).passTime(claim).acquire("c", nil)
		},
		"places lapse": func(s *script) {
			s.acquire("a", nil).join("b").passTime(lease).acquire("c", driver.ErrHeld).passTime(placeFor-lease).mustBe("a~ |").acquire("c", nil)
		},
		"a place is given up": func(s *script) {
			s.acquire("a", nil).join("b", "c").release("b", driver.OutcomeReleased).mustBe("a | c").acquire("b", driver.ErrLost)
		},
		"a reservation is claimed": func(s *script) {
			s.acquire("a", nil).joinPushed("b", "c").release("a", driver.OutcomeReleased).mustBe("b! | c").acquire("c", driver.ErrHeld).acquire("b", nil).mustBe("b | c")
		},
		"a reservation is given up": func(s *script) {
			s.acquire("a", nil).joinPushed("b", "c").release("a", driver.OutcomeReleased).release("b", driver.OutcomeReleased).mustBe("c! |")
		},
		"a reservation lapses": func(s *script) {
			s.acquire("a", nil).joinPushed("b", "c").release("a", driver.OutcomeReleased).passTime(claim).mustBe("| c").acquire("b", driver.ErrHeld).acquire("c", nil)
		},
		"a reservation lapsed and nobody else waits": func(s *script) {
			s.acquire("a", nil).joinPushed("b").release("a", driver.OutcomeReleased).passTime(claim).mustBe("|").release("b", driver.OutcomeGone)
		},
	} {
		t.Run(what, func(t *testing.T) { run(newScript(t)) })
	}
}

// TestReaders goes along the edges for readers, and for a server whose clock is set back.
func TestReaders(t *testing.T) {
	for what, run := range map[string]func(s *script){
		"readers are handed the name together": func(s *script) {
			s.acquire("a", nil).joinPushed("r1", "r2", "w", "r3").release("a", driver.OutcomeReleased).mustBe("r1! r2! | w r3").acquire("r2", nil).acquire("r1", nil).mustBe("r1 r2 | w r3")
		},
		"readers that poll come in any order": func(s *script) {
			s.acquire("a", nil).join("r1", "r2", "w", "r3").release("a", driver.OutcomeReleased).acquire("r2", nil).mustBe("r2 | r1 w r3")
			s.acquire("r3", driver.ErrHeld).acquire("r1", nil).mustBe("r2 r1 | w r3")
		},
		"a reader without a place stays behind the waiters": func(s *script) {
			s.acquire("a", nil).join("r1").release("a", driver.OutcomeReleased).acquire("r2", driver.ErrHeld)
		},
		"what was free before says nothing of today": func(s *script) {
			s.acquire("a", nil).join("b").release("a", driver.OutcomeReleased).release("b", driver.OutcomeReleased).passTime(decide.SpentFor)
			s.takeNow("c").join("d").release("c", driver.OutcomeReleased).passTime(time.Millisecond).acquire("e", driver.ErrHeld).acquire("d", nil)
		},
		"the name lies free only while the first may have it": func(s *script) {
			s.acquire("r1", nil).join("r2", "w", "x").passTime(time.Second).release("r2", driver.OutcomeReleased)
			s.passTime(time.Second).release("r1", driver.OutcomeReleased).acquire("x", driver.ErrHeld).acquire("w", nil)
		},
		"the server's clock is set back": func(s *script) {
			s.acquire("a", nil).joinPushed("b").join("c", "d").release("a", driver.OutcomeReleased).mustBe("b! | c d").passTime(-time.Hour)
			s.acquire("c", driver.ErrHeld).passTime(claim).mustBe("| c d").acquire("c", nil).passTime(placeFor).mustBe("c~ |")
		},
		"a token is refused no longer after the clock was set back": func(s *script) {
			s.release("a", driver.OutcomeGone).passTime(-time.Hour).acquire("b", nil).release("b", driver.OutcomeReleased).passTime(decide.SpentFor)
			if end := s.st.busyUntil(); end > s.now {
				s.t.Errorf("the name is busy for %v", end.Sub(s.now))
			}
		},
	} {
		t.Run(what, func(t *testing.T) { run(newScript(t)) })
	}
}

// takeNow changes the state in the same way as the statement for a free name.
func (s *script) takeNow(token string) *script {
	s.t.Helper()
	if h, _ := s.st.exclusive(); h != nil || s.st.busyUntil() > s.now {
		s.t.Fatalf("%s: the name is not plainly free", token)
	}
	s.st.Fence = max(s.st.Fence+1, uint64(s.now))
	s.st.Holds = append(s.st.Holds, decide.Hold{Token: token, Fence: s.st.Fence, Since: s.now, Until: s.now.Add(lease)})
	return s
}

// TestLeaveFree: a transaction keeps the name when it is given back. The first waiter has to look,
// and those behind it keep their order.
func TestLeaveFree(t *testing.T) {
	s := newScript(t).acquire("a", nil).joinPushed("b", "c")
	s.st.release("a", 0, s.now)
	look := s.st.leaveFree(s.now)
	if len(look) != 1 || look[0].to.token != "b" || look[0].fence != 0 {
		t.Errorf("%+v, want that b looks", look)
	}
	if s.st.firstToLook() != "b" {
		t.Error("b does not look")
	}
	s.passTime(time.Millisecond).acquire("c", driver.ErrHeld).acquire("b", nil)
}

// TestCooling: a name begins to cool down. The first waiter has to look, because it expects the end
// of the lease, and the second one has to know that the first one was woken.
func TestCooling(t *testing.T) {
	s := newScript(t).acquire("a", nil)
	release := func(keep time.Duration) []reservation {
		before := s.st.Cool
		s.st.release("a", keep, s.now)
		s.st.handOver(s.now)
		return s.st.wakeForCoolDown(before, s.now)
	}
	if look := release(time.Second); look != nil {
		t.Errorf("nobody waits, and %+v has to look", look)
	}
	s.passTime(time.Second).acquire("a", nil).joinPushed("b", "c")
	look := release(time.Second)
	if len(look) != 1 || look[0].to.token != "b" || look[0].fence != 0 || look[0].next.token != "c" {
		t.Errorf("%+v, want that b looks and that c is warned", look)
	}
	if look := s.st.wakeForCoolDown(s.st.Cool, s.now); look != nil {
		t.Errorf("the cool-down is not new, and %+v has to look", look)
	}
	s.acquire("b", driver.ErrHeld).passTime(time.Second).acquire("b", nil)
	if look := release(0); look != nil {
		t.Errorf("there is no cool-down, and %+v has to look", look)
	}
}
