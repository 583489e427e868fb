package soak

import (
	"bytes"
	"slices"
	"testing"
	"time"
)

const ms = int64(time.Millisecond)

// story returns the events of two holds on one name, one after the other, without a violation.
func story() []Event {
	return []Event{
		{Op: Acquired, Worker: 1, Name: "n", Hold: 1, Call: 1 * ms, At: 2 * ms, Fence: 10, TTL: 400 * ms, Until: 390 * ms, Fixed: true},
		{Op: Verified, Worker: 1, Name: "n", Hold: 1, Call: 10 * ms, At: 11 * ms, Until: 390 * ms},
		{Op: Released, Worker: 1, Name: "n", Hold: 1, Call: 20 * ms, At: 21 * ms, Until: 390 * ms},
		{Op: Acquired, Worker: 2, Name: "n", Hold: 2, Call: 5 * ms, At: 22 * ms, Fence: 11, TTL: 400 * ms, Until: 410 * ms, Waited: true},
		{Op: Released, Worker: 2, Name: "n", Hold: 2, Call: 30 * ms, At: 31 * ms, Until: 410 * ms},
	}
}

// stories are variants of story, each with the invariants that it breaks.
var stories = []struct {
	name   string
	want   []string
	change func(s []Event) []Event
}{
	{"all well", nil, func(s []Event) []Event { return s }},
	{"granted before the release", []string{"I1"}, func(s []Event) []Event { s[3].At = 19 * ms; return s }},
	{"granted after the release was begun", nil, func(s []Event) []Event { s[3].At = 20*ms + 1; return s }},
	{"both shared", nil, func(s []Event) []Event {
		s[0].Shared, s[3].Shared, s[3].At, s[3].Fence = true, true, 15*ms, 10
		return s
	}},
	{"a reader next to the writer", []string{"I1"}, func(s []Event) []Event { s[3].Shared, s[3].At = true, 15*ms; return s }},
	{"within the window of a worker that was killed later", []string{"I1"}, func(s []Event) []Event {
		s[2] = Event{Op: Killed, Worker: 1, At: 40 * ms}
		return s
	}},
	{"after a worker was killed", nil, func(s []Event) []Event { s[2] = Event{Op: Killed, Worker: 1, At: 20 * ms}; return s }},
	{"after a release that was begun by a worker that was killed then", nil, func(s []Event) []Event {
		s[2] = Event{Op: Begun, Worker: 1, Name: "n", Hold: 1, At: 20 * ms, Err: string(Released)}
		return append(s, Event{Op: Killed, Worker: 1, At: 40 * ms})
	}},
	{"before a release was begun by a worker that was killed then", []string{"I1"}, func(s []Event) []Event {
		s[2] = Event{Op: Begun, Worker: 1, Name: "n", Hold: 1, At: 23 * ms, Err: string(Released)}
		return append(s, Event{Op: Killed, Worker: 1, At: 40 * ms})
	}},
	{"a reader after a demotion that was begun by a worker that was killed then", nil, func(s []Event) []Event {
		s[2] = Event{Op: Begun, Worker: 1, Name: "n", Hold: 1, At: 20 * ms, Err: string(Demoted)}
		s[3].Shared = true
		return append(s, Event{Op: Killed, Worker: 1, At: 40 * ms})
	}},
	{"a reader after a demotion that was begun by a worker that lost the hold and was killed then", nil, func(s []Event) []Event {
		s[2] = Event{Op: Begun, Worker: 1, Name: "n", Hold: 1, At: 20 * ms, Err: string(Demoted)}
		s[3].Shared = true
		return append(s, Event{Op: Lost, Worker: 1, Name: "n", Hold: 1, At: 390 * ms}, Event{Op: Killed, Worker: 1, At: 400 * ms})
	}},
	{"a reader before that demotion was begun", []string{"I1"}, func(s []Event) []Event {
		s[2] = Event{Op: Begun, Worker: 1, Name: "n", Hold: 1, At: 23 * ms, Err: string(Demoted)}
		s[3].Shared = true
		return append(s, Event{Op: Lost, Worker: 1, Name: "n", Hold: 1, At: 390 * ms}, Event{Op: Killed, Worker: 1, At: 400 * ms})
	}},
	{"a reader after a demotion of a hold that was exported meanwhile", nil, func(s []Event) []Event {
		s[2] = Event{Op: Exported, Worker: 1, Name: "n", Hold: 1, Call: 25 * ms, At: 26 * ms}
		s[3].Shared = true
		return append(s, Event{Op: Demoted, Worker: 1, Name: "n", Hold: 1, Call: 20 * ms, At: 27 * ms, Shared: true, Until: 390 * ms})
	}},
	{"granted within a cool-down", []string{"I9"}, func(s []Event) []Event { s[2].Keep = 100 * ms; return s }},
	{"a reader within the cool-down of a reader", nil, func(s []Event) []Event {
		s[0].Shared, s[3].Shared, s[3].Fence, s[2].Keep = true, true, 10, 100*ms
		return s
	}},
	{"a writer within the cool-down of a reader", []string{"I9"}, func(s []Event) []Event {
		s[0].Shared, s[2].Keep = true, 100*ms
		return s
	}},
	{"granted after a cool-down by a clock that runs fast", nil, func(s []Event) []Event {
		s[2].Keep, s[3].At, s[3].Until, s[4].Call, s[4].At = 100*ms, 119*ms, 500*ms, 130*ms, 131*ms
		return s
	}},
	{"granted before the time of HoldAtLeast", []string{"I9"}, func(s []Event) []Event { s[0].Keep = 100 * ms; return s }},
	{"granted before that time, after a release without room for the rest of it", nil, func(s []Event) []Event {
		s[0].Keep, s[2].Err = 100*ms, "unavailable"
		return s
	}},
	{"granted after the time of HoldAtLeast", nil, func(s []Event) []Event { s[0].Keep = 15 * ms; return s }},
	{"within a cool-down, after a release of unknown outcome", nil, func(s []Event) []Event {
		s[2].Keep, s[2].Err = 100*ms, "uncertain"
		return s
	}},
	{"its longest time was over too soon", []string{"I5"}, func(s []Event) []Event {
		return append(s[:2], Event{Op: Lost, Worker: 1, Name: "n", Hold: 1, At: 15 * ms, Err: "max hold"}, s[3], s[4])
	}},
	{"broken and held, while a member of several did not answer", nil, func(s []Event) []Event {
		return append(s, promised(Promises{Several: true}), Event{Op: Faulted, Worker: engine, Call: 10 * ms, At: 15 * ms}, Event{Op: Broken, Call: 40 * ms, At: 50 * ms, Err: "I8 " + brokenAndHeld})
	}},
	{"broken and held, while all members answered", []string{"I8"}, func(s []Event) []Event {
		return append(s, promised(Promises{Several: true}), Event{Op: Broken, Call: 40 * ms, At: 50 * ms, Err: "I8 " + brokenAndHeld})
	}},
	{"over before its grant could be noted", nil, func(s []Event) []Event {
		s[0].Until = 0
		return append(s[:1], Event{Op: Lost, Worker: 1, Name: "n", Hold: 1, At: 15 * ms, Err: "max hold"}, s[3], s[4])
	}},
	{"granted after the hold was broken", nil, func(s []Event) []Event { s[2].Op = Evicted; return s }},
	{"granted before the hold was broken", []string{"I1"}, func(s []Event) []Event { s[2].Op, s[3].At = Evicted, 15*ms; return s }},
	{"the engine itself, while servers did not answer", nil, func(s []Event) []Event {
		return append(s, promised(Promises{Voting: true}), Event{Op: Stalled, Worker: engine, Call: 10 * ms, At: 30 * ms}, Event{Op: Broken, Worker: engine, Call: 40 * ms, At: 50 * ms, Err: "I8 what it saw"})
	}},
	{"the engine itself, while all servers answered", []string{"I8"}, func(s []Event) []Event {
		return append(s, promised(Promises{Voting: true}), Event{Op: Broken, Worker: engine, Call: 40 * ms, At: 50 * ms, Err: "I8 what it saw"})
	}},
	{"a demotion that was not carried out", []string{"I1"}, func(s []Event) []Event {
		begun := Event{Op: Begun, Worker: 1, Name: "n", Hold: 1, At: 12 * ms, Err: string(Demoted)}
		s[2] = Event{Op: Lost, Worker: 1, Name: "n", Hold: 1, At: 30 * ms}
		said := Event{Op: Demoted, Worker: 1, Name: "n", Hold: 1, Call: 12 * ms, At: 31 * ms, Err: "unavailable"}
		return append(s, begun, said)
	}},
	{"after the last breath of a worker that was being killed", nil, func(s []Event) []Event {
		return append(s[:1], Event{Op: Killed, Worker: 1, At: 1 * ms}, s[3], s[4])
	}},
	{"next to an exported hold", nil, func(s []Event) []Event { s[1].Op, s[1].Call, s[3].At = Exported, 10*ms, 15*ms; return s }},
	{"the same fence", []string{"I2"}, func(s []Event) []Event { s[3].Fence = 10; return s }},
	{"a smaller fence", []string{"I2"}, func(s []Event) []Event { s[3].Fence = 9; return s }},
	{"success after the loss", []string{"I4"}, func(s []Event) []Event {
		return append(s, Event{Op: Lost, Worker: 1, Hold: 1, Name: "n", At: 12 * ms})
	}},
	{"told too late", []string{"I5"}, func(s []Event) []Event {
		s[2] = Event{Op: Lost, Worker: 1, Hold: 1, Name: "n", At: 460 * ms}
		s[3].At, s[3].Until, s[4].Call, s[4].At = 500*ms, 900*ms, 510*ms, 511*ms
		return s
	}},
	{"told too late by a process that stood still", nil, func(s []Event) []Event {
		s[2] = Event{Op: Lost, Worker: 1, Hold: 1, Name: "n", At: 460 * ms}
		s[3].At, s[3].Until, s[4].Call, s[4].At = 500*ms, 900*ms, 510*ms, 511*ms
		return append(s, Event{Op: Stalled, Worker: 1, Call: 380 * ms, At: 459 * ms})
	}},
	{"told too late by a process that stood still for a little", []string{"I5"}, func(s []Event) []Event {
		s[2] = Event{Op: Lost, Worker: 1, Hold: 1, Name: "n", At: 460 * ms}
		s[3].At, s[3].Until, s[4].Call, s[4].At = 500*ms, 900*ms, 510*ms, 511*ms
		return append(s, Event{Op: Stalled, Worker: 1, Call: 380 * ms, At: 392 * ms})
	}},
	{"waited for nothing", []string{"I6"}, func(s []Event) []Event {
		s[3].At, s[3].Until, s[4].Call, s[4].At = 1500*ms, 1900*ms, 1510*ms, 1511*ms
		return s
	}},
	{"waited behind a waiter that was killed, which the store noticed in time", nil, func(s []Event) []Event {
		return append(grantedAt(s, 2500*ms), asked("n"), killed(25*ms), noticesAfter(2000*ms))
	}},
	{"waited behind a waiter that was killed, longer than the store may need to notice it", []string{"I6"}, func(s []Event) []Event {
		return append(grantedAt(s, 2500*ms), asked("n"), killed(25*ms), noticesAfter(500*ms))
	}},
	{"waited behind a waiter that was killed, which the store notices soon", []string{"I6"}, func(s []Event) []Event {
		return append(grantedAt(s, 2500*ms), asked("n"), killed(25*ms))
	}},
	{"waited for nothing, after a waiter for another name was killed", []string{"I6"}, func(s []Event) []Event {
		return append(grantedAt(s, 2500*ms), asked("m"), killed(25*ms), noticesAfter(2000*ms))
	}},
	{"waited for nothing, after another process of the worker was killed", []string{"I6"}, func(s []Event) []Event {
		other := killed(25 * ms)
		other.Life++
		return append(grantedAt(s, 2500*ms), asked("n"), other, noticesAfter(2000*ms))
	}},
	{"waited for nothing, and a process was killed long after it had given up", []string{"I6"}, func(s []Event) []Event {
		s[2].Call, s[2].At = 1300*ms, 1301*ms
		s[0].Until, s[1].Until, s[2].Until = 1350*ms, 1350*ms, 1350*ms
		return append(grantedAt(s, 3500*ms), asked("n"), refused(4*ms), killed(1310*ms), noticesAfter(5000*ms))
	}},
	{"waited behind a process that was killed just after it had given up", nil, func(s []Event) []Event {
		return append(grantedAt(s, 2500*ms), asked("n"), refused(4*ms), killed(25*ms), noticesAfter(2000*ms))
	}},
	{"waited for a permit behind a waiter that was killed", nil, func(s []Event) []Event {
		before := asked("n")
		before.Slots = 1
		s[0].Name, s[1].Name, s[2].Name, s[3].Name, s[4].Name = permit, permit, permit, permit, permit
		s[0].Slots, s[3].Slots = 1, 1
		return append(grantedAt(s, 2500*ms), before, killed(25*ms), noticesAfter(2000*ms))
	}},
	{"waited for a holder that was killed, which the store noticed in time", nil, func(s []Event) []Event {
		s[2] = Event{Op: Killed, Worker: 1, At: 20 * ms}
		return append(grantedAt(s, 2500*ms), noticesAfter(2000*ms))
	}},
	{"waited for a holder that was killed, longer than the store may need to notice it", []string{"I6"}, func(s []Event) []Event {
		s[2] = Event{Op: Killed, Worker: 1, At: 20 * ms}
		return append(grantedAt(s, 2500*ms), noticesAfter(500*ms))
	}},
	{"waited for a holder that was killed, by an observed clock", nil, func(s []Event) []Event {
		s[2] = Event{Op: Killed, Worker: 1, At: 20 * ms}
		return append(grantedAt(s, 9500*ms), promised(Promises{Observes: 10_000 * ms}))
	}},
	{"waited for the end of a cool-down, by an observed clock", nil, func(s []Event) []Event {
		s[0].Keep = 30 * ms
		return append(grantedAt(s, 9500*ms), promised(Promises{Observes: 10_000 * ms}))
	}},
	{"waited for a holder that was killed, for longer than any lease by an observed clock", []string{"I6"}, func(s []Event) []Event {
		s[2] = Event{Op: Killed, Worker: 1, At: 20 * ms}
		return append(grantedAt(s, 9500*ms), promised(Promises{Observes: 2000 * ms}))
	}},
	{"waited for nothing, after another had the lock of the holder that was killed", []string{"I6"}, func(s []Event) []Event {
		s[2] = Event{Op: Killed, Worker: 1, At: 20 * ms}
		s = append(grantedAt(s, 9500*ms), promised(Promises{Observes: 10_000 * ms}))
		s[3].Fence = 12
		return append(s, Event{Op: Acquired, Worker: 4, Name: "n", Hold: 3, Call: 500 * ms, At: 501 * ms, Fence: 11, TTL: 400 * ms, Until: 890 * ms},
			Event{Op: Released, Worker: 4, Name: "n", Hold: 3, Call: 510 * ms, At: 511 * ms, Until: 890 * ms})
	}},
	{"waited for nothing, after a holder that had released the lock was killed", []string{"I6"}, func(s []Event) []Event {
		return append(grantedAt(s, 2500*ms), Event{Op: Killed, Worker: 1, At: 25 * ms}, noticesAfter(2000*ms))
	}},
	{"waited for a process that stood still", nil, func(s []Event) []Event {
		s[3].At, s[3].Until, s[4].Call, s[4].At = 1500*ms, 1900*ms, 1510*ms, 1511*ms
		return append(s, Event{Op: Stalled, Call: 100 * ms, At: 500 * ms}, Event{Op: Stalled, Worker: 1, Call: 300 * ms, At: 600 * ms})
	}},
	{"waited for nothing, with a short stall", []string{"I6"}, func(s []Event) []Event {
		s[3].At, s[3].Until, s[4].Call, s[4].At = 1500*ms, 1900*ms, 1510*ms, 1511*ms
		return append(s, Event{Op: Stalled, Call: 700 * ms, At: 800 * ms})
	}},
	{"waited for a store that was slow to reply", nil, func(s []Event) []Event {
		s[3].At, s[3].Until, s[4].Call, s[4].At = 1500*ms, 1900*ms, 1510*ms, 1511*ms
		return append(s, Event{Op: Verified, Name: "other", Call: 300 * ms, At: 1000 * ms})
	}},
	{"waited for a fault", nil, func(s []Event) []Event {
		s[3].At, s[3].Until, s[4].Call, s[4].At = 1500*ms, 1900*ms, 1510*ms, 1511*ms
		return append(s, Event{Op: Faulted, Call: 30 * ms, At: 40 * ms})
	}},
	{"waited for a hold that was not given back", nil, func(s []Event) []Event {
		s[2] = Event{Op: Released, Worker: 1, Name: "n", Hold: 1, Call: 20 * ms, At: 600 * ms, Err: "uncertain"}
		s[3].At, s[3].Until, s[4].Call, s[4].At = 1500*ms, 1900*ms, 1510*ms, 1511*ms
		return s
	}},
	{"released by a majority, while a server did not answer", nil, func(s []Event) []Event {
		return append(s, promised(Promises{Voting: true}), Event{Op: Faulted, Worker: engine, Call: 10 * ms, At: 15 * ms}, Event{Op: Broken, Call: 40 * ms, At: 50 * ms, Err: "I8 what it saw"})
	}},
	{"released by a majority, while all servers answered", []string{"I8"}, func(s []Event) []Event {
		return append(s, promised(Promises{Voting: true}), Event{Op: Broken, Call: 40 * ms, At: 50 * ms, Err: "I8 what it saw"})
	}},
	{"granted shortly before the holder learned of its loss", []string{"I1"}, func(s []Event) []Event { return lostAt(s, 80*ms) }},
	{"granted shortly before the holder learned of its loss, which may be late", nil, func(s []Event) []Event {
		return append(lostAt(s, 80*ms), promised(Promises{LearnsLate: 100 * ms}))
	}},
	{"granted long before the holder learned of its loss, which may be late", []string{"I1"}, func(s []Event) []Event {
		return append(lostAt(s, 380*ms), promised(Promises{LearnsLate: 100 * ms}))
	}},
	{"granted while a holder that may learn of its loss late had not lost it", []string{"I1"}, func(s []Event) []Event {
		s[3].At = 19 * ms
		return append(s, promised(Promises{LearnsLate: 100 * ms}))
	}},
	{"granted before a call of a holder that lost it later succeeded", []string{"I1"}, func(s []Event) []Event {
		s = append(lostAt(s, 80*ms), promised(Promises{LearnsLate: 100 * ms}))
		s[1].Call, s[1].At = 40*ms, 41*ms
		return s
	}},
	{"rejected by the register before it learned of its loss", nil, func(s []Event) []Event {
		return append(lostAt(s, 80*ms), promised(Promises{LearnsLate: 100 * ms}), Event{Op: Broken, Worker: 1, Hold: 1, At: 50 * ms, Err: "I3 rejected"})
	}},
	{"a reader with a smaller fence than the writer before it", []string{"I2"}, func(s []Event) []Event { s[3].Shared, s[3].Fence = true, 9; return s }},
	{"a check that succeeded after the loss", []string{"I4"}, func(s []Event) []Event { return afterLoss(s, Verified) }},
	{"a promotion that succeeded after the loss", []string{"I4"}, func(s []Event) []Event { return afterLoss(s, Promoted) }},
	{"a demotion that succeeded after the loss", []string{"I4"}, func(s []Event) []Event { return afterLoss(s, Demoted) }},
	{"told late about a hold whose deadline is not known", nil, func(s []Event) []Event {
		s[0].Fixed, s[2] = false, Event{Op: Lost, Worker: 1, Hold: 1, Name: "n", At: 460 * ms}
		s[3].At, s[3].Until, s[4].Call, s[4].At = 500*ms, 900*ms, 510*ms, 511*ms
		return s
	}},
	{"a write after the deadline", []string{"I5"}, func(s []Event) []Event {
		return append(s, Event{Op: Broken, Worker: 1, Hold: 1, Call: 390 * ms, At: 500 * ms, Err: "I5 a write"})
	}},
	{"a write after the deadline, of a process that stood still", nil, func(s []Event) []Event {
		return append(s, Event{Op: Broken, Worker: 1, Hold: 1, Call: 390 * ms, At: 500 * ms, Err: "I5 a write"}, Event{Op: Stalled, Worker: 1, Call: 395 * ms, At: 499 * ms})
	}},
	{"refused after it had waited for nothing", []string{"I6"}, func(s []Event) []Event { return refusedAt(s, "held") }},
	{"refused by a store that did not reply", nil, func(s []Event) []Event { return refusedAt(s, "unavailable") }},
	{"a reader within the cool-down of a writer", []string{"I9"}, func(s []Event) []Event { s[2].Keep, s[3].Shared = 100*ms, true; return s }},
	{"after another worker was killed", []string{"I1"}, func(s []Event) []Event {
		s[2], s[3].At = Event{Op: Killed, Worker: 3, At: 10 * ms}, 15*ms
		return s
	}},
	{"after a later process of the worker was killed", []string{"I1"}, func(s []Event) []Event {
		s[2], s[3].At = Event{Op: Killed, Worker: 1, Life: 1, At: 10 * ms}, 15*ms
		return s
	}},
	{"within the window of a hold that was renewed", []string{"I1"}, func(s []Event) []Event {
		s[1].Until, s[2] = 800*ms, Event{Op: Killed, Worker: 1, At: 900 * ms}
		s[3].At, s[3].Until, s[4].Call, s[4].At = 500*ms, 900*ms, 510*ms, 511*ms
		return s
	}},
	{"within the window that the release showed", []string{"I1"}, func(s []Event) []Event {
		s[2].Until, s[2].Call, s[2].At = 800*ms, 600*ms, 601*ms
		s[3].At, s[3].Until, s[4].Call, s[4].At = 500*ms, 900*ms, 510*ms, 511*ms
		return s
	}},
	{"waited for a hold whose break was not confirmed", nil, func(s []Event) []Event {
		s[2] = Event{Op: Evicted, Worker: 1, Name: "n", Hold: 1, Call: 20 * ms, At: 600 * ms, Err: "uncertain"}
		s[3].At, s[3].Until, s[4].Call, s[4].At = 1690*ms, 1900*ms, 1700*ms, 1701*ms
		return s
	}},
	{"granted before a promotion of a holder that lost it later", []string{"I1"}, func(s []Event) []Event {
		s = append(lostAt(s, 80*ms), promised(Promises{LearnsLate: 100 * ms}))
		s[1].Op, s[1].Call, s[1].At = Promoted, 40*ms, 41*ms
		return s
	}},
	{"granted before a failed call of a holder that may learn of its loss late", nil, func(s []Event) []Event {
		s = append(lostAt(s, 80*ms), promised(Promises{LearnsLate: 100 * ms}))
		s[1].Call, s[1].At, s[1].Err = 40*ms, 41*ms, "unavailable"
		return s
	}},
	{"rejected by the register long before it learned of its loss", []string{"I3"}, func(s []Event) []Event {
		s = append(lostAt(s, 380*ms), promised(Promises{LearnsLate: 100 * ms}), Event{Op: Broken, Worker: 1, Hold: 1, At: 50 * ms, Err: "I3 rejected"})
		s[3].At, s[3].Until, s[4].Call, s[4].At = 390*ms, 800*ms, 400*ms, 401*ms
		return s
	}},
	{"seen by a worker", []string{"I8"}, func(s []Event) []Event { return append(s, Event{Op: Broken, At: 50 * ms, Err: "I8 what it saw"}) }},
}

var permit = slotNames("n", 1)[0]

// grantedAt moves the second hold, so that its worker waits until then.
func grantedAt(s []Event, at int64) []Event {
	s[3].At, s[3].Until, s[4].Call, s[4].At = at, at+400*ms, at+10*ms, at+11*ms
	return s
}

// asked and refused are the beginning and the end of a call of a third worker, and killed is its
// death.
func asked(name string) Event {
	return Event{Op: Asked, Worker: 3, Name: name, Call: 3 * ms, At: 3 * ms}
}

func refused(at int64) Event {
	return Event{Op: Refused, Worker: 3, Name: "n", Call: 3 * ms, At: at, Err: "held"}
}

func killed(at int64) Event { return Event{Op: Killed, Worker: 3, At: at} }

func noticesAfter(d int64) Event { return promised(Promises{NoticesLate: d}) }

func promised(p Promises) Event { return Event{Op: Promised, Worker: engine, Promises: &p} }

// lostAt makes the first holder learn of a loss instead of releasing the lock.
func lostAt(s []Event, at int64) []Event {
	s[2] = Event{Op: Lost, Worker: 1, Hold: 1, Name: "n", At: at, Err: "lost"}
	return s
}

// afterLoss makes a call of the first holder succeed after the holder has lost the lock.
func afterLoss(s []Event, op Op) []Event {
	s[1] = Event{Op: Lost, Worker: 1, Hold: 1, Name: "n", At: 12 * ms, Err: "lost"}
	s[2].Op = op
	return s
}

// refusedAt makes the second worker wait for a second and a half, and get an error.
func refusedAt(s []Event, err string) []Event {
	s[3] = Event{Op: Refused, Worker: 2, Name: "n", Call: 5 * ms, At: 1500 * ms, TTL: 400 * ms, Waited: true, Err: err}
	return s[:4]
}

func TestCheck(t *testing.T) {
	for _, c := range stories {
		found, _ := Check(&Outcome{Events: c.change(story())})
		var got []string
		for _, v := range found {
			got = append(got, v.Invariant)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: found %v, want %v", c.name, found, c.want)
		}
	}
}

func TestDelayOfLossSignals(t *testing.T) {
	for _, at := range []int64{400, 430} {
		if _, late := Check(&Outcome{Events: lostAt(story(), at*ms)}); late != time.Duration(at-390)*time.Millisecond {
			t.Errorf("a loss at %d ms: late by %v", at, late)
		}
	}
}

func TestConversionWindows(t *testing.T) {
	read := Event{Op: Acquired, Worker: 1, Name: "n", Hold: 1, Call: 1, At: 2, Fence: 10, Shared: true, Until: 400 * ms}
	other := Event{Op: Acquired, Worker: 2, Name: "n", Hold: 2, Call: 1, At: 3, Fence: 10, Shared: true, Until: 400 * ms}
	promoted := Event{Op: Promoted, Worker: 1, Name: "n", Hold: 1, Call: 4, At: 10, Fence: 11, Until: 400 * ms}
	gone := Event{Op: Released, Worker: 2, Name: "n", Hold: 2, Call: 5, At: 6}
	if found, _ := Check(&Outcome{Events: []Event{read, other, promoted, gone}}); len(found) != 0 {
		t.Errorf("promoted after the other had gone: %v", found)
	}
	gone.Call, gone.At = 20, 21
	if found, _ := Check(&Outcome{Events: []Event{read, other, promoted, gone}}); len(found) != 1 || found[0].Invariant != "I1" {
		t.Errorf("promoted next to another reader: %v", found)
	}
}

// If the store promises the order of arrival, a waiter that comes much later must not be served
// first.
func TestOrderOfArrival(t *testing.T) {
	wait := func(worker int, hold, call, at int64) Event {
		return Event{Op: Acquired, Worker: worker, Name: "n", Hold: hold, Call: call * ms, At: at * ms, Fence: uint64(at), TTL: 400 * ms, Until: (at + 10) * ms, Waited: true}
	}
	kept := Event{Op: Refused, Worker: 3, Name: "n", Call: 0, At: 2900 * ms, TTL: 400 * ms, Err: "uncertain"} // the store may have held the name for worker 3
	refused := func(worker int, call, at int64) Event {
		return Event{Op: Refused, Worker: worker, Name: "n", Call: call * ms, At: at * ms, TTL: 400 * ms, Waited: true, Err: "held"}
	}
	earlier, later := wait(1, 1, 1000, 2800), wait(2, 2, 2000, 2500)
	cases := []struct {
		name   string
		events []Event
		want   int
	}{
		{"overtaken", []Event{earlier, later}, 1},
		{"served in order", []Event{wait(1, 1, 1000, 2500), wait(2, 2, 2000, 2800)}, 0},
		{"nearly at once", []Event{earlier, wait(2, 2, 1100, 2500)}, 0},
		{"behind another of its process", []Event{wait(1, 3, 900, 2490), earlier, later}, 0},
		{"a process that stood still", []Event{earlier, later, {Op: Stalled, Worker: 1, Call: 1500 * ms, At: 1900 * ms}}, 0},
		{"a process that stood still for a little", []Event{earlier, later, {Op: Stalled, Worker: 1, Call: 1500 * ms, At: 1650 * ms}}, 1},
		{"a process that stood still for a little, and nearly at once", []Event{earlier, wait(2, 2, 1400, 2500), {Op: Stalled, Worker: 1, Call: 1100 * ms, At: 1250 * ms}}, 0},
		{"a store that was slow to reply", []Event{earlier, later, {Op: Released, Worker: 4, Name: "other", Call: 1500 * ms, At: 1850 * ms}}, 0},
		{"a store that replied in time", []Event{earlier, later, {Op: Released, Worker: 4, Name: "other", Call: 1500 * ms, At: 1750 * ms}}, 1},
		{"a fault", []Event{earlier, later, {Op: Faulted, Worker: engine, Call: 1200 * ms, At: 1300 * ms}}, 0},
		{"overtaken by one that did not wait", []Event{earlier, changed(later, func(e *Event) { e.Waited = false })}, 0},
		{"overtaken by a reader", []Event{earlier, changed(later, func(e *Event) { e.Shared = true })}, 0},
		{"a reader overtaken", []Event{changed(earlier, func(e *Event) { e.Shared = true }), later}, 0},
		{"a reader refused", []Event{changed(refused(1, 1000, 4000), func(e *Event) { e.Shared = true }), later}, 0},
		{"overtaken, and refused in the end", []Event{refused(1, 1000, 4000), later}, 1},
		{"refused shortly after", []Event{refused(1, 1000, 3400), later}, 0},
		{"refused, and came nearly at the same time", []Event{refused(1, 1000, 4000), wait(2, 2, 1200, 2500)}, 0},
		{"refused behind another of its process, which waits on", []Event{refused(1, 1000, 4000), later, {Op: Refused, Worker: 1, Name: "n", Call: 900 * ms, At: 4500 * ms, Err: "cancelled"}}, 0},
		{"refused behind another of its process, which was granted it late", []Event{refused(1, 1000, 4000), later, wait(1, 3, 900, 1900)}, 0},
		{"both refused", []Event{refused(1, 1000, 4000), refused(2, 2000, 2500)}, 0},
		{"refused after the end of its own time", []Event{{Op: Refused, Worker: 1, Name: "n", Call: 1000 * ms, At: 4000 * ms, Waited: true, Err: "timeout"}, later}, 0},
		{"refused at once", []Event{{Op: Refused, Worker: 1, Name: "n", Call: 1000 * ms, At: 4000 * ms, Err: "held"}, later}, 0},
	}
	for _, c := range cases {
		events := append([]Event{promised(Promises{Ordered: true}), kept}, c.events...)
		if found, _ := Check(&Outcome{Events: events}); len(found) != c.want {
			t.Errorf("%s: %v, want %d", c.name, found, c.want)
		}
		if found, _ := Check(&Outcome{Events: events[1:]}); len(found) != 0 {
			t.Errorf("%s, where no order is promised: %v", c.name, found)
		}
	}
}

// changed returns a changed copy of e.
func changed(e Event, change func(*Event)) Event {
	change(&e)
	return e
}

// A demotion without a reply may have let readers in. A demotion that the store did not carry out
// must not let readers in.
func TestDemotionInDoubt(t *testing.T) {
	for err, want := range map[string]int{"lost": 0, "uncertain": 0, "unavailable": 1} {
		found, _ := Check(&Outcome{Events: []Event{
			{Op: Acquired, Worker: 1, Name: "n", Hold: 1, Call: 1, At: 2, Fence: 10, Until: 400 * ms},
			{Op: Acquired, Worker: 2, Name: "n", Hold: 2, Call: 5 * ms, At: 6 * ms, Fence: 10, Shared: true, Until: 400 * ms},
			{Op: Lost, Worker: 1, Name: "n", Hold: 1, At: 19 * ms},
			{Op: Demoted, Worker: 1, Name: "n", Hold: 1, Call: 4 * ms, At: 20 * ms, Err: err},
		}})
		if len(found) != want {
			t.Errorf("%s: %v, want %d", err, found, want)
		}
	}
}

// The fenced register rejects a late write that the plain register accepts.
func TestCourt(t *testing.T) {
	c := NewMonitor()
	late, early := clockNow()-1, clockNow()+int64(time.Hour)
	old := c.Read("n", 5)
	c.Write(Write{Name: "n", Fence: 6, Value: c.Read("n", 6), Until: early})
	c.Write(Write{Name: "n", Fence: 5, Value: old, Until: late})
	if h := c.harm(); h.LostFenced != 0 || h.LostPlain != 1 || h.FencedRejected != 1 || len(c.history()) != 0 {
		t.Errorf("a late writer: %+v, %v", h, c.history())
	}
	c.Write(Write{Name: "n", Fence: 5, Value: old, Until: early})
	if h := c.history(); len(h) != 1 || h[0].Err[:2] != "I3" {
		t.Errorf("a holder inside its window was rejected: %v", h)
	}
	one := c.Read("m", 7)
	c.Write(Write{Name: "m", Fence: 7, Value: one, Until: early})
	c.Write(Write{Name: "m", Fence: 7, Value: one, Until: early})
	if h := c.harm(); h.LostFenced != 1 {
		t.Errorf("two holders with one fence: %+v", h)
	}
	c.Write(Write{Name: "m", Fence: 7, Value: one, Until: clockNow() - int64(time.Second)})
	if h := c.history(); len(h) != 2 || h[1].Err[:2] != "I5" {
		t.Errorf("a write long after the deadline: %v", h)
	}
}

func TestHistoryOnPaper(t *testing.T) {
	var b bytes.Buffer
	if err := WriteHistory(&b, story()); err != nil {
		t.Fatal(err)
	}
	back, err := ReadHistory(&b)
	if err != nil || !slices.Equal(back, story()) {
		t.Errorf("it came back as %v, %v", back, err)
	}
}
