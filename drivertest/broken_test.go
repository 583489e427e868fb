package drivertest

import (
	"flag"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/server"
)

// broken lists, for each bug, exactly the cases that find it. A case with a question mark finds the
// bug only if the scheduler allows that. For example, a waiter that spins notices in time a release
// that comes early enough. A case with a tilde finds the bug only if no time passes between two
// steps of the case, as in a bubble: fences follow the clock, so a forgotten fence does not show a
// moment later. The crowd cases may find any bug. They are listed with the bugs that
// they must find.
var broken = map[bug]string{
	actsOnOldNews:        "crowd/exclusive crowd/shared crowd/waiting",
	anyLabel:             "limits/holder",
	anyName:              "limits/name",
	anyTTL:               "limits/ttl",
	anyToken:             "limits/token",
	boundOutlivesCut:     "cut/bound",
	boundOutlivesSilence: "silence/bound",
	breakLeavesCoolDown:  "break/ends-holds",
	breakMintsNothing:    "fence/grows",
	breakWakesNobody:     "wait/wakes",
	breaksAnything:       "break/another-hold",
	cancelHidesGrant:     "context/cancelled-acquires",
	cancelIsARefusal:     "queue/counted",
	cancelStays:          "close/ends-waits giveup/during-a-long-wait giveup/silence queue/counted queue/lost-process queue/readers-wait-behind-writers",
	claimIsShort:         "reserve/claim",
	claimMints:           "reserve/claim",
	clientsClock:         "clock/server",
	clientsJudge:         "clock/server",
	clientsSetEnds:       "clock/server",
	clockStepEndsLeases:  "clock/server",
	closeDropsHolds:      "bound/close-keeps",
	closeForgetsWaiters:  "close/ends-waits queue/readers-wait-behind-writers",
	closeLeaks:           "close/goroutines",
	convertTakes:         "lost/expired",
	coolDownForgotten:    "acquire/used-often cooldown/keeps cooldown/told full/cool-down limits/keep list/what-is-busy wait/cooldown-in-time wait/wakes",
	coolDownLooksHeld:    "cooldown/told list/what-is-busy",
	cutDropsHolds:        "cut/unbound",
	deadWaiterUntold:     "queue/dead-waiter reserve/lapses",
	demotionDoesNothing:  "demote/keeps-fence shared/told wait/readers",
	demotionMints:        "demote/keeps-fence extend/lengthens extend/never-shortens shared/one-fence",
	errorBecomesHeld:     "cut/unavailable cut/unbound lost-reply/own-hold",
	everyWaitTakesAPlace: "wait/cooldown-in-time wait/missed-wake-up wait/release-wakes wait/without-a-place",
	exclusiveLooksShared: "acquire/free acquire/repeat-mode extend/lengthens extend/never-shortens shared/told",
	expiredForLost:       "lost/evicted lost/expired-and-left lost/expired-and-read lost/expired-and-taken lost/foreign-token lost/other-name lost/released-and-taken lost/replaced",
	extendAfterRelease:   "lost-reply/refused lost/released",
	extendAnybody:        "lost/foreign-token lost/other-name",
	extendDoesNothing:    "acquire/repeat-shorter extend/abandoned extend/lengthens held/until-moves",
	extendKeepsOthers:    "extend/abandoned",
	extendRevives:        "lost/expired shared/own-lease",
	extendShortens:       "acquire/repeat-shorter extend/never-shortens",
	extendTheTaker:       "lost/evicted lost/expired-and-taken lost/replaced",
	fenceAboveForAll:     "fence/highest fence/over-restart",
	fenceAboveIgnored:    "fence/above fence/highest",
	fenceAboveOnce:       "fence/above fence/grows fence/highest fence/shared",
	fenceCounts:          "fence/over-restart fence/scale",
	fenceForgotten: "acquire/refused-again~ break/another-hold~ fence/above fence/grows fence/highest fence/shared lost-reply/refused~ promote/sole-reader~ raisefence/raises " +
		"raisefence/used-up",
	fenceTooBig: "answers/fence fence/above fence/grows fence/highest fence/scale fence/shared lost/evicted lost/expired lost/expired-and-left lost/expired-and-read lost/expired-and-taken lost/released lost/released-and-taken " +
		"lost/replaced raisefence/raises raisefence/used-up shared/one-fence",
	fencesStandStill:          "raisefence/used-up",
	firstReaderIsStale:        "fence/shared raisefence/used-up",
	foreignersUnmarked:        "held/foreign",
	fullDemotesNothing:        "full/loses-nothing",
	fullEndsHold:              "full/cool-down",
	fullExtendsNothing:        "full/loses-nothing",
	fullExtendsNoBatch:        "full/batch",
	fullForgetsCoolDown:       "full/cool-down",
	fullGrantsInSecret:        "full/loses-nothing",
	fullPromotionLosesHold:    "full/promotion",
	fullReleasesNothing:       "full/loses-nothing",
	fullSlotsTaken:            "full/slots",
	fullUnnamed:               "full/loses-nothing",
	givenUpWaitDropsHold:      "extend/refused wait/promotion",
	guaranteesChange:          "guarantees/constant",
	heldByNobody:              "held/holder limits/holder",
	heldByTheFirst:            "limits/holder",
	heldErrorIsPlain:          "answers/errors cooldown/told held/holder held/until-moves limits/holder",
	heldSinceLong:             "held/holder",
	heldUntilTheStart:         "held/holder held/until-moves inspect/held",
	heldWithoutPlan:           "held/holder",
	idChangesAtRestart:        "identify/restart",
	idIsAnAddress:             "identify/same",
	idPerProcess:              "identify/same",
	inspectTakes:              "inspect/free",
	inspectTellsLapsed:        "inspect/free",
	inspectTellsOldFence:      "break/ends-holds fence/grows inspect/free inspect/held lost/evicted promote/intent-ends wait/wakes",
	intentForEver:             "promote/intent-ends",
	intentLetsIn:              "promote/intent",
	intentNotWithdrawn:        "promote/intent-ends",
	intentOutlivesRelease:     "promote/intent-ends",
	recordsGrow:               "record/bounded",
	recordsKeepTheFirst:       "record/bounded",
	recordsOfAnyKind:          "limits/name record/limits",
	recordsPerProcess:         "record/bounded record/kept record/limits record/names record/newest",
	recordsRepeat:             "record/kept",
	recordsShareABound:        "record/bounded",
	recordsTakeTheName:        "record/kept",
	recordedAll:               "record/names record/newest",
	recordedOldest:            "record/newest",
	holdersLabelCut:           "limits/holder",
	readersLabelCut:           "limits/holder",
	waitersLabelCut:           "limits/holder",
	invalidUnnamed:            "acquire/spent limits/fence limits/holder limits/keep limits/name limits/token limits/ttl",
	joinersIgnoreAbove:        "fence/above",
	oldUserMissesCoolDown:     "acquire/used-often",
	oldUserMissesGrowth:       "acquire/used-often",
	joinsAfterGivingUp:        "giveup/during-a-long-wait giveup/silence queue/counted",
	keepsAreLeases:            "limits/keep",
	lastComeFirst:             "queue/first-come queue/no-overtaking",
	lateReleaseSaysReleased:   "lost/expired",
	listIgnoresPrefix:         "list/many list/prefix list/what-is-busy",
	listMatchesPatterns:       "list/prefix",
	listensLate:               "wait/release-meanwhile",
	listensLateInLine:         "wait/release-meanwhile",
	listStopsAtHundred:        "list/many",
	listTellsFreeNames:        "list/what-is-busy",
	modeOfTheFirstGrant:       "extend/lengthens extend/never-shortens shared/told",
	namesCleaned:              "list/prefix names/alike names/any-bytes",
	namesCut:                  "names/long",
	namesEndAtZero:            "names/alike",
	namesFolded:               "list/prefix names/alike",
	namesHashed:               "names/hashed",
	namesHaveKeys:             "names/alike",
	namesTrimmed:              "names/alike",
	namesUTF8:                 "names/any-bytes",
	placeIsAnywhere:           "identify/place",
	overtakes:                 "queue/readers-wait-behind-writers",
	promotersWaitForEachOther: "promote/conflict",
	promotesAmongReaders:      "promote/failed-keeps-the-hold",
	promotionKeepsFence:       "promote/sole-reader",
	promotionLosesHold:        "extend/refused promote/failed-keeps-the-hold",
	raiseDoesNothing:          "raisefence/raises raisefence/used-up",
	raiseLowers:               "raisefence/raises",
	raiseNeverFails:           "lost/evicted lost/expired lost/expired-and-left lost/expired-and-read lost/expired-and-taken lost/foreign-token lost/nobody lost/other-name lost/released lost/released-and-taken lost/replaced",
	raisesTooFar:              "limits/fence",
	readerShortensOthers:      "shared/own-lease",
	readersFenceOld:           "fence/above fence/shared raisefence/used-up shared/one-fence",
	readersMint:               "shared/one-fence",
	readersIgnoreWriters:      "acquire/contend acquire/repeat-mode fence/shared limits/token lost/expired-and-read promote/sole-reader",
	readersShareALease:        "shared/own-lease",
	releaseAnybody:            "extend/refused lost/foreign-token lost/other-name tokens/opaque",
	releaseFreesAllReaders:    "acquire/repeat-mode cooldown/keeps demote/keeps-fence promote/conflict promote/failed-keeps-the-hold queue/readers-wait-behind-writers shared/one-fence shared/together wait/promotion",
	repeatConverts:            "acquire/repeat-mode",
	repeatIsRefused: "acquire/refused-again acquire/repeat acquire/repeat-mode acquire/repeat-shorter extend/lengthens extend/never-shortens fence/above lost-reply/own-hold lost/replaced " +
		"raisefence/raises",
	repeatKeepsLease:          "extend/lengthens",
	repeatModeUntold:          "acquire/repeat-mode",
	repeatShortens:            "acquire/repeat-shorter extend/never-shortens",
	repeatMints:               "acquire/refused-again acquire/repeat acquire/repeat-shorter extend/lengthens extend/never-shortens fence/above lost/replaced reserve/claim",
	replacesAndKeeps:          "fence/above held/holder lost/replaced",
	replacesConverts:          "replaces/mode shared/told",
	replacesFreshly:           "lost/expired lost/expired-and-left lost/expired-and-read lost/nobody lost/released",
	replacesKeepsFence:        "fence/above lost/replaced",
	reservationForEver:        "queue/dead-waiter reserve/lapses",
	reservationIsShort:        "reserve/lapses",
	reservesUnasked:           "wait/without-a-place",
	restartLosesAll:           "restart/keeps-holds",
	secondReleaseRemoves:      "lost/released-and-taken",
	secondReleaseSaysReleased: "lost/released lost/released-and-taken",
	sharedIsExclusive:         "demote/keeps-fence promote/sole-reader queue/readers-wait-behind-writers raisefence/used-up shared/together",
	spentEndsHolds:            "acquire/spent",
	staleReleaseCools:         "extend/refused lost/evicted lost/expired lost/expired-and-taken lost/foreign-token lost/nobody lost/other-name lost/released lost/released-and-taken lost/replaced",
	staleReleaseRemoves:       "lost/evicted lost/expired-and-taken lost/replaced",
	statusWithoutValue:        "status/findings",
	fullIsHeld:                "wait/many",
	tokenInError:              "answers/secret-tokens",
	verifyRenews:              "extend/verify",
	waitSpins: "wait/release-wakes fence/above? giveup/during-a-long-wait? giveup/silence? limits/holder? promote/intent-ends? queue/counted? queue/dead-waiter? queue/first-come? " +
		"queue/lost-process? queue/no-overtaking? queue/readers-wait-behind-writers? wait/cooldown-in-time? wait/foreign? wait/readers? wait/wakes?",
	waitersUncounted:   "queue/counted",
	waitsForTheSilent:  "silence/returns",
	wakeUpMissed:       "wait/missed-wake-up wait/release-meanwhile",
	wakesOnlyAtRelease: "promote/intent-ends queue/dead-waiter wait/cooldown-in-time wait/wakes",
	wokenKeepsItsPlace: "fence/above giveup/during-a-long-wait giveup/silence limits/holder promote/intent-ends queue/dead-waiter queue/first-come queue/lost-process queue/no-overtaking " +
		"queue/readers-wait-behind-writers wait/cooldown-in-time wait/foreign wait/missed-wake-up wait/readers wait/release-wakes wait/wakes",
	writersIgnoreReaders: "demote/keeps-fence extend/lengthens extend/never-shortens limits/holder promote/failed-keeps-the-hold queue/readers-wait-behind-writers replaces/mode shared/own-lease shared/together",
	wrongTokenIsTaken:    "lost/foreign-token lost/other-name lost/released-and-taken",
	sameFenceAgain:       "acquire/expiry",
	leaseEndsEarly: "acquire/expiry acquire/repeat-shorter bound/close-keeps extend/lengthens extend/never-shortens extend/verify fence/grows fence/shared lost/expired-and-left lost/expired-and-read lost/expired-and-taken " +
		"reserve/lapses",
	grantsHalf:              "extend/refused acquire/free acquire/repeat-shorter extend/never-shortens held/holder inspect/held",
	refusedQueues:           "acquire/never-queues",
	boundUnasked:            "answers/bound",
	fromForgotten:           "answers/in-process",
	fromToCome:              "reserve/hold reserve/lapses",
	inProcessReserves:       "reserve/in-process",
	leaseUntold:             "extend/refused acquire/repeat-shorter answers/lease extend/lengthens",
	leaseRoundedToNone:      "answers/lease",
	closeKeepsBound:         "bound/close-ends",
	releaseDropsTheRest:     "bound/shared",
	releaseEndsBound:        "bound/shared",
	closedAnswers:           "close/closed",
	secondCloseFails:        "close/closed",
	contextIgnored:          "context/ended-before",
	cancelledReleaseLies:    "context/ended-before",
	convertAnybody:          "lost/foreign-token lost/other-name",
	sameModeRefused:         "convert/same-mode extend/lengthens extend/never-shortens",
	coolDownPretended:       "guarantees/unsupported",
	extendTakesFree:         "lost/nobody",
	fenceLapses:             "fence/grows fence/shared",
	fenceCools:              "fence/grows",
	lossDelayUnbound:        "guarantees/consistent",
	heldAndUncertain:        "answers/errors",
	pathPerProcess:          "inspect/held",
	leaseAfterAll:           "limits/ttl-ignored",
	errorBecomesLoss:        "lost-reply/own-hold lost-reply/refused",
	errorBecomesUnavailable: "lost-reply/own-hold",
	namesHaveSlots:          "names/alike names/any-bytes",
	promotionPromised:       "guarantees/consistent",
	promotesAnyway:          "guarantees/unsupported",
	releaseSaysGone:         "release/frees",
	boundDetaches:           "guarantees/unsupported",
	detachedIsBound:         "detached/outlives",
	detachedReaderAlone:     "detached/outlives detached/shared",
	detachedUnsupported:     "detached/ignored",
	convertShortens:         "extend/never-shortens",
	convertKeepsLease:       "extend/lengthens",
	demotionWakesNobody:     "wait/readers",
	giveUpWakesNobody:       "queue/lost-process queue/readers-wait-behind-writers",
	intentEndWakesNobody:    "promote/intent-ends",
	secondReleaseWarms:      "cooldown/keeps",
	coolDownUntold:          "wait/cooldown-in-time",
	coolDownKnowsItsToken:   "cooldown/keeps",
	extendMovesSince:        "held/until-moves",
	swapKeepsHolder:         "held/holder",
	breakEndsOneReader:      "break/ends-holds",
	listRepeats:             "list/many list/prefix list/what-is-busy",
	waiterForgetsAbove:      "fence/above",
	swapForgetsAbove:        "fence/above",
	lackUntold:              "close/closed guarantees/abilities identify/restart identify/same",
	lackUntrue:              "guarantees/abilities",
	locationOfAll:           "names/location",
	slotsShareALock:         "names/alike",
	boundSwaps:              "guarantees/unsupported",
	replacesAnybody:         "lost/expired lost/foreign-token lost/other-name",
	swapUnsupported: "close/closed fence/above held/holder lost/evicted lost/expired lost/expired-and-left lost/expired-and-read lost/expired-and-taken lost/foreign-token lost/nobody lost/other-name lost/released " +
		"lost/released-and-taken lost/replaced replaces/mode shared/told",
	releaseKeepsReservation:   "queue/no-overtaking reserve/release wait/missed-wake-up",
	sharedPretended:           "guarantees/unsupported",
	holdIsNone:                "reserve/hold",
	passAboveIgnored:          "fence/above",
	passAnyToken:              "limits/token",
	passAndKeeps:              "fence/above lost/passed pass/queue-first",
	passForAnybody:            "lost/expired lost/expired-and-left lost/expired-and-read lost/nobody lost/released",
	passKeepsFence:            "fence/above lost/passed",
	passNever:                 "lost/passed",
	passOvertakes:             "pass/queue-first",
	passRefusesAgain:          "lost/passed",
	passUnchecked:             "pass/invalid",
	batchEndsEarly:            "batch/each",
	batchOutOfOrder:           "batch/each",
	batchOnlyVerifies:         "batch/each",
	batchUnchecked:            "batch/invalid",
	slotAlwaysFirst:           "full/slots slots/queue slots/takes",
	slotOvertakes:             "slots/queue",
	slotRepeatTakesAnother:    "slots/takes",
	slotUnchecked:             "slots/invalid",
	slotRefusedForEver:        "slots/takes",
	refusedExtendShortens:     "extend/refused lost/expired shared/own-lease?",
	refusedPromotionLengthens: "extend/refused",
	waitLengthens:             "extend/refused",
	refusedForEver:            "acquire/refused-again lost-reply/refused",
	refusedKeepsFence:         "acquire/refused-again lost-reply/refused",
	refusalComesBack:          "lost-reply/refused",
	refusalIsCleanedUp:        "lost-reply/refused",
}

// With -real, TestBrokenStores runs by the real clock, and each case as on the machine that it is.
// Each bug must be caught. With -v, the log names the cases that have missed theirs. For example,
// on a busy machine:
//
//	go test ./drivertest -run TestBrokenStores -timeout 1h -args -real
var realClock = flag.Bool("real", false, "run the broken stores by the real clock")

// TestBrokenStores runs the suite against a store with one bug at a time, on a machine that always
// stands still. The race detector is slow and looks for other errors. So under it only the cases
// that must fail are run.
func TestBrokenStores(t *testing.T) {
	server.Thorough(t)
	for b, list := range broken {
		t.Run(string(b), func(t *testing.T) {
			t.Parallel()
			want, may := expected(list)
			watched := strings.Contains(list, "answers/") // in all other cases
			some := func(name string) bool {
				return !raceDetector && !*realClock || watched || slices.Contains(want, name) || slices.Contains(may, name)
			}
			found := failing(t, func() *world { return brokenWorld(b) }, some, always)
			got := slices.DeleteFunc(names(found), func(n string) bool {
				return (strings.HasPrefix(n, "crowd/") || slices.Contains(may, n)) && !slices.Contains(want, n)
			})
			slices.Sort(want)
			if *realClock && caught(got, want) {
				if !slices.Equal(got, want) {
					t.Logf("not every case has seen the bug: the cases that fail are %q, not %q", got, want)
				}
				return
			}
			if !slices.Equal(got, want) {
				t.Errorf("the cases that fail are %q, want %q", got, want)
				for _, f := range found {
					t.Log(f)
				}
			}
		})
	}
}

// caught reports whether the suite has found a bug: a case that must find it fails. By the real
// clock, a case may miss a bug that does something too early by a few milliseconds, because the
// machine is late by more. Other cases may fail too, because a bug about times has more effects.
func caught(got, want []string) bool {
	return slices.ContainsFunc(want, func(name string) bool { return slices.Contains(got, name) })
}

// expected splits a list into the cases that find a bug and those that may find it.
func expected(list string) (want, may []string) {
	for _, name := range strings.Fields(list) {
		sometimes, ok := strings.CutSuffix(name, "?")
		inBubble, tilde := strings.CutSuffix(name, "~")
		switch {
		case ok:
			may = append(may, sometimes)
		case tilde && *realClock:
			may = append(may, inBubble)
		default:
			want = append(want, inBubble)
		}
	}
	return want, may
}

func brokenWorld(b bug) *world {
	w := newWorld(b)
	w.passes = slices.Contains(passBugs, b) || slices.Contains(slotBugs, b) || slices.Contains(batchBugs, b)
	switch b {
	case cancelHidesGrant, joinsAfterGivingUp:
		w.trip = time.Millisecond
	case keepsAreLeases:
		w.g.MaxTTL = time.Hour
	case deadWaiterUntold:
		w.linger = 20 * time.Second
	case coolDownPretended:
		w.g.CoolDown = false
	case leaseAfterAll:
		w.g.Lease = false
		bind(w)
	case promotionPromised, sharedPretended:
		w.g.Shared, w.g.SharedFence = false, driver.PromiseNo
		if b == sharedPretended {
			w.g.Promotion = driver.PromotionNone
		}
	case promotesAnyway:
		w.g.Promotion = driver.PromotionNone
	case fromForgotten, inProcessReserves:
		w.g.InProcess = true
	case boundOutlivesCut, boundOutlivesSilence, closeKeepsBound, releaseEndsBound, releaseDropsTheRest, boundSwaps, boundDetaches:
		bind(w)
	case detachedIsBound, detachedReaderAlone:
		bind(w)
		w.g.Detached = true
	case clientsClock:
		w.g.SafeClockJump = driver.PromiseNo
	case clientsJudge, clientsSetEnds:
		w.byWallClock()
		w.g.SafeClockJump = driver.PromiseNo
	case clockStepEndsLeases:
		w.byWallClock()
	}
	return w
}

func bind(w *world) { w.g.Bound, w.g.SurvivesRestart = driver.BoundToConnection, driver.PromiseNo }

// failing runs the suite in a bubble.
func failing(t *testing.T, make func() *world, some func(string) bool, still stood) (out []Failure) {
	t.Helper()
	run := func(t *testing.T) {
		w := make()
		r, err := start(w.harness())
		if err != nil {
			t.Fatal(err)
		}
		if !*realClock {
			r.stillness = func() stillness { return still }
		}
		out = r.check(some)
		close(w.leak)
	}
	if *realClock {
		run(t)
	} else {
		synctest.Test(t, run)
	}
	return out
}

func names(fs []Failure) (out []string) {
	for _, f := range fs {
		out = append(out, f.Case)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// rightStores are stores without a bug, with and without each promise.
var rightStores = map[string]func(*world){
	"all there is":    func(w *world) { w.passes = true },
	"passes nothing":  func(w *world) {},
	"short queue":     func(w *world) { w.most = 64 },
	"far away":        func(w *world) { w.trip, w.passes = 3*time.Millisecond, true },
	"in this process": func(w *world) { w.g.InProcess = true },
	"bound to a connection": func(w *world) {
		bind(w)
		w.g.LossDelay = time.Second
	},
	"bound, without leases": func(w *world) {
		bind(w)
		w.g.Lease = false
	},
	"slow to notice a dead waiter": func(w *world) { w.linger, w.g.DeadWaiter = 20*time.Second, 20*time.Second },
	"short names":                  func(w *world) { w.g.MaxName = 200 },
	"short labels":                 func(w *world) { w.g.MaxLabel = 99 },
	"without fences":               func(w *world) { w.g.Fence, w.g.SharedFence = driver.FenceNone, driver.PromiseNo },
	"without readers": func(w *world) {
		w.g.Shared, w.g.SharedFence, w.g.Promotion = false, driver.PromiseNo, driver.PromotionNone
	},
	"without promotion":   func(w *world) { w.g.Promotion = driver.PromotionNone },
	"promotion re-grants": func(w *world) { w.g.Promotion = driver.PromotionRegrant },
	"without cool-downs":  func(w *world) { w.g.CoolDown = false },
	"coarse leases":       func(w *world) { w.g.MinTTL, w.g.MaxTTL = 2*time.Second, time.Hour },
}

// TestRightStores runs the suite against stores without a bug, with and without each promise.
func TestRightStores(t *testing.T) {
	for kind, change := range rightStores {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			right := func() *world {
				w := newWorld("")
				change(w)
				return w
			}
			for _, f := range failing(t, right, nil, never) {
				t.Error(f)
			}
		})
	}
}
