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
	anyToken:             "limits/token-of-no-hold",
	boundOutlivesCut:     "cut/bound",
	boundOutlivesSilence: "silence/bound",
	breakLeavesCoolDown:  "break/ends-holds",
	breakMintsNothing:    "break/fence",
	breakWakesNobody:     "wait/break-wakes",
	breaksAnything:       "break/another-hold",
	cancelHidesGrant:     "context/cancelled-acquires",
	cancelIsARefusal:     "wait/cancel",
	cancelStays:          "close/ends-waits giveup/during-a-long-wait giveup/silence queue/cancel-leaves queue/lost-process",
	claimIsShort:         "reserve/claim",
	claimMints:           "reserve/fence",
	clientsClock:         "clock/server",
	clientsJudge:         "clock/server",
	clientsSetEnds:       "clock/server",
	clockStepEndsLeases:  "clock/server",
	closeDropsHolds:      "bound/close-keeps",
	closeForgetsWaiters:  "close/ends-waits",
	closeLeaks:           "close/goroutines",
	convertTakes:         "convert/lost",
	coolDownForgotten: "acquire/used-often limits/keep-beyond-leases wait/cooldown-in-time cooldown/with-readers cooldown/keeps cooldown/told inspect/cooling list/what-is-busy " +
		"wait/wakes-after-cooldown",
	coolDownLooksHeld:    "cooldown/told inspect/cooling list/what-is-busy",
	cutDropsHolds:        "cut/unbound",
	deadWaiterUntold:     "queue/dead-waiter reserve/lapses",
	demotionDoesNothing:  "demote/keeps-fence shared/told wait/demotion-wakes",
	demotionMints:        "demote/keeps-fence shared/one-fence",
	errorBecomesHeld:     "cut/unavailable lost-reply/acquire",
	everyWaitTakesAPlace: "wait/cooldown-in-time wait/missed-wake-up wait/release-wakes wait/without-a-place",
	exclusiveLooksShared: "acquire/repeat-mode extend/mode shared/told",
	expiredForLost:       "extend/after-taken extend/foreign-token replaces/swap",
	extendAfterRelease:   "extend/after-release lost-reply/refused",
	extendAnybody:        "extend/foreign-token tokens/one-name",
	extendDoesNothing:    "acquire/repeat-shorter extend/abandoned extend/own held/until-moves",
	extendKeepsOthers:    "extend/abandoned",
	extendRevives:        "extend/never-revives shared/own-lease",
	extendShortens:       "acquire/repeat-shorter extend/never-shortens",
	extendTheTaker:       "extend/after-taken replaces/swap",
	fenceAboveForAll:     "fence/highest fence/over-restart",
	fenceAboveIgnored:    "fence/above fence/above-joining fence/highest wait/above",
	fenceAboveOnce:       "fence/above fence/above-joining fence/highest fence/over-cooldown fence/over-expiry fence/over-release fence/shared",
	fenceCounts:          "fence/over-restart fence/scale",
	fenceForgotten: "acquire/refused-again~ lost-reply/refused~ break/another-hold~ fence/above fence/above-joining fence/highest fence/over-cooldown fence/over-expiry fence/over-release fence/shared " +
		"promote/sole-reader~ raisefence/raises raisefence/used-up",
	fenceTooBig: "answers/fence break/fence fence/above fence/above-joining fence/highest fence/over-cooldown fence/over-expiry fence/over-release fence/scale fence/shared " +
		"raisefence/lost raisefence/raises raisefence/used-up shared/one-fence wait/above",
	fencesStandStill:          "raisefence/used-up",
	firstReaderIsStale:        "fence/shared raisefence/used-up",
	foreignersUnmarked:        "held/foreign",
	fullDemotesNothing:        "full/loses-nothing",
	fullExtendsNothing:        "full/loses-nothing",
	fullReleasesNothing:       "full/loses-nothing",
	givenUpWaitDropsHold:      "wait/promotion",
	guaranteesChange:          "guarantees/constant",
	heldByNobody:              "limits/holder-of-a-waiter limits/holder-of-readers held/holder inspect/held limits/holder",
	heldByTheFirst:            "held/all-in-the-way limits/holder-of-readers",
	heldErrorIsPlain:          "answers/errors cooldown/told held/all-in-the-way held/holder held/times held/until-moves limits/holder limits/holder-of-readers limits/holder-of-a-waiter",
	heldSinceLong:             "held/times inspect/held",
	heldUntilTheStart:         "held/times held/until-moves inspect/held",
	heldWithoutPlan:           "held/times inspect/held",
	idChangesAtRestart:        "identify/restart",
	idIsAnAddress:             "identify/same",
	idPerProcess:              "identify/same",
	inspectTakes:              "inspect/touches-nothing",
	inspectTellsLapsed:        "inspect/live-only",
	inspectTellsOldFence:      "break/ends-holds break/evicted break/fence inspect/held inspect/live-only wait/break-wakes",
	intentForEver:             "promote/intent-lapses wait/intent-wakes",
	intentLetsIn:              "promote/intent",
	intentNotWithdrawn:        "promote/withdraw",
	intentOutlivesRelease:     "promote/release-withdraws",
	recordsGrow:               "record/bounded",
	recordsKeepTheFirst:       "record/bounded",
	recordsOfAnyKind:          "record/limits",
	recordsPerProcess:         "record/bounded record/kept record/limits record/names record/no-lock",
	recordsRepeat:             "record/kept",
	recordsShareABound:        "record/bounded",
	recordsTakeTheName:        "record/no-lock",
	recordedNamesAll:          "record/names",
	holdersLabelCut:           "limits/holder limits/holder-of-readers limits/holder-of-a-waiter",
	readersLabelCut:           "limits/holder-of-readers",
	waitersLabelCut:           "limits/holder-of-a-waiter",
	invalidUnnamed:            "acquire/spent limits/fence limits/holder limits/keep limits/name limits/token limits/token-of-no-hold limits/ttl",
	joinersIgnoreAbove:        "fence/above-joining",
	oldUserMissesCoolDown:     "acquire/used-often",
	oldUserMissesGrowth:       "acquire/used-often",
	joinsAfterGivingUp:        "giveup/during-a-long-wait giveup/silence",
	keepsAreLeases:            "limits/keep-beyond-leases",
	lastComeFirst:             "queue/first-come queue/no-overtaking",
	lateReleaseSaysReleased:   "release/after-expiry",
	listIgnoresPrefix:         "list/any-names list/many list/prefix list/prefix-is-no-pattern list/what-is-busy",
	listMatchesPatterns:       "list/prefix list/prefix-is-no-pattern",
	listStopsAtHundred:        "list/many",
	listTellsFreeNames:        "list/what-is-busy",
	modeOfTheFirstGrant:       "shared/told",
	namesCleaned:              "list/prefix names/any-bytes names/ends names/paths",
	namesCut:                  "names/long",
	namesEndAtZero:            "names/ends",
	namesFolded:               "list/prefix names/case",
	namesHashed:               "names/hashed",
	namesHaveKeys:             "names/own-data",
	namesTrimmed:              "names/ends",
	namesUTF8:                 "names/any-bytes",
	placeIsAnywhere:           "identify/place",
	overtakes:                 "queue/readers-wait-behind-writers",
	promotersWaitForEachOther: "promote/conflict",
	promotesAmongReaders:      "promote/failed-keeps-the-hold",
	promotionKeepsFence:       "promote/sole-reader",
	promotionLosesHold:        "promote/failed-keeps-the-hold",
	raiseDoesNothing:          "raisefence/raises raisefence/used-up",
	raiseLowers:               "raisefence/raises",
	raiseNeverFails:           "raisefence/lost",
	raisesTooFar:              "raisefence/invalid",
	readerShortensOthers:      "shared/longest-lease shared/own-lease",
	readersFenceOld:           "fence/above fence/above-joining fence/shared raisefence/used-up shared/one-fence",
	readersMint:               "shared/one-fence",
	readersIgnoreWriters:      "acquire/contend acquire/repeat-mode fence/shared limits/token-of-no-hold promote/sole-reader",
	readersShareALease:        "shared/own-lease",
	releaseAnybody:            "release/foreign-token tokens/one-name tokens/opaque",
	releaseFreesAllReaders: "acquire/repeat-mode cooldown/with-readers demote/keeps-fence promote/conflict promote/failed-keeps-the-hold " +
		"release/one-reader shared/longest-lease shared/one-fence wait/promotion",
	repeatConverts: "acquire/repeat-mode",
	repeatIsRefused: "acquire/repeat-shorter acquire/refused-again acquire/repeat acquire/repeat-full-lease acquire/repeat-mode fence/above lost-reply/acquire " +
		"raisefence/raises replaces/repeat",
	repeatKeepsLease:          "acquire/repeat-full-lease",
	repeatModeUntold:          "acquire/repeat-mode",
	repeatShortens:            "acquire/repeat-shorter",
	repeatMints:               "acquire/repeat-shorter acquire/refused-again acquire/repeat fence/above replaces/repeat reserve/fence",
	replacesAndKeeps:          "replaces/swap",
	replacesConverts:          "replaces/mode shared/told",
	replacesFreshly:           "replaces/never-fresh",
	replacesKeepsFence:        "replaces/swap wait/above",
	reservationForEver:        "queue/dead-waiter reserve/lapses",
	reservationIsShort:        "reserve/lapses",
	reservesUnasked:           "wait/without-a-place",
	restartLosesAll:           "restart/keeps-holds",
	secondReleaseRemoves:      "release/repeat-after-another",
	secondReleaseSaysReleased: "release/repeat release/repeat-after-another",
	sharedIsExclusive:         "demote/keeps-fence promote/sole-reader raisefence/used-up shared/together",
	spentEndsHolds:            "acquire/spent",
	staleReleaseCools:         "cooldown/stale-release",
	staleReleaseRemoves:       "break/evicted release/after-taken replaces/swap",
	statusWithoutValue:        "status/findings",
	tokenInError:              "answers/secret-tokens",
	verifyRenews:              "extend/verify",
	waitSpins: "limits/holder-of-a-waiter? wait/cooldown-in-time? wait/blocks queue/dead-waiter? queue/first-come? queue/lost-process? queue/no-overtaking? queue/readers-wait-behind-writers? " +
		"giveup/during-a-long-wait? giveup/silence? wait/break-wakes? wait/cancel? wait/foreign? wait/readers? wait/release-wakes? wait/wakes-after-cooldown? wait/wakes-at-expiry? wait/demotion-wakes? wait/intent-wakes? wait/above?",
	waitersUncounted:   "queue/counted",
	waitsForTheSilent:  "silence/returns",
	wakeUpMissed:       "wait/missed-wake-up",
	wakesOnlyAtRelease: "wait/cooldown-in-time queue/dead-waiter wait/wakes-after-cooldown wait/wakes-at-expiry wait/intent-wakes",
	wokenKeepsItsPlace: "limits/holder-of-a-waiter wait/cooldown-in-time queue/dead-waiter queue/first-come queue/lost-process queue/no-overtaking queue/readers-wait-behind-writers " +
		"giveup/during-a-long-wait giveup/silence wait/blocks wait/break-wakes wait/foreign wait/missed-wake-up wait/readers wait/release-wakes " +
		"wait/wakes-after-cooldown wait/wakes-at-expiry wait/demotion-wakes wait/intent-wakes wait/above",
	writersIgnoreReaders: "limits/holder-of-readers demote/keeps-fence held/all-in-the-way promote/failed-keeps-the-hold release/one-reader replaces/mode " +
		"shared/longest-lease convert/lengthens convert/never-shortens",
	wrongTokenIsTaken: "release/foreign-token release/repeat-after-another",
	sameFenceAgain:    "acquire/again-after-expiry",
	leaseEndsEarly: "acquire/repeat-shorter acquire/expiry acquire/repeat-full-lease bound/close-keeps " +
		"extend/after-taken extend/never-shortens extend/own extend/verify fence/over-expiry fence/shared release/after-taken " +
		"reserve/lapses convert/lengthens convert/never-shortens",
	grantsHalf:              "acquire/repeat-shorter acquire/free acquire/repeat-full-lease held/times inspect/held convert/never-shortens",
	refusedQueues:           "acquire/never-queues",
	boundUnasked:            "answers/bound",
	fromForgotten:           "answers/in-process",
	fromToCome:              "reserve/hold reserve/lapses",
	inProcessReserves:       "reserve/in-process",
	leaseUntold:             "acquire/repeat-shorter answers/lease extend/own",
	leaseRoundedToNone:      "answers/lease",
	closeKeepsBound:         "bound/close-ends",
	releaseDropsTheRest:     "bound/shared",
	releaseEndsBound:        "bound/shared",
	closedAnswers:           "close/closed",
	secondCloseFails:        "close/twice",
	contextIgnored:          "context/ended-before",
	cancelledReleaseLies:    "context/release-tells",
	convertAnybody:          "convert/foreign-token",
	sameModeRefused:         "convert/same-mode",
	coolDownPretended:       "cooldown/unsupported",
	extendTakesFree:         "extend/nobody",
	fenceLapses:             "fence/over-expiry fence/shared",
	fenceCools:              "fence/over-cooldown",
	lossDelayUnbound:        "guarantees/consistent",
	heldAndUncertain:        "held/nothing-else",
	pathPerProcess:          "inspect/path",
	leaseAfterAll:           "limits/ttl-ignored",
	errorBecomesLoss:        "lost-reply/extend lost-reply/refused",
	errorBecomesUnavailable: "lost-reply/acquire lost-reply/release",
	namesHaveSlots:          "names/any-bytes names/own-data",
	promotionPromised:       "promote/promised",
	promotesAnyway:          "promote/unsupported",
	releaseSaysGone:         "release/frees",
	boundDetaches:           "detached/unsupported",
	detachedIsBound:         "detached/outlives",
	detachedUnsupported:     "detached/ignored",
	convertShortens:         "convert/never-shortens",
	convertKeepsLease:       "convert/lengthens",
	demotionWakesNobody:     "wait/demotion-wakes",
	intentEndWakesNobody:    "wait/intent-wakes",
	secondReleaseWarms:      "cooldown/keeps",
	coolDownUntold:          "wait/cooldown-in-time",
	coolDownKnowsItsToken:   "cooldown/keeps",
	extendMovesSince:        "held/until-moves",
	swapKeepsHolder:         "held/holder",
	breakEndsOneReader:      "break/ends-holds",
	listRepeats:             "list/any-names list/many list/prefix list/prefix-is-no-pattern list/what-is-busy",
	waiterForgetsAbove:      "wait/above",
	swapForgetsAbove:        "wait/above",
	lackUntold:              "close/closed guarantees/abilities identify/restart identify/same",
	lackUntrue:              "guarantees/abilities",
	locationOfAll:           "names/location",
	slotsShareALock:         "names/slots",
	boundSwaps:              "replaces/bound",
	replacesAnybody:         "replaces/never-fresh replaces/taken",
	swapUnsupported:         "held/holder replaces/mode replaces/never-fresh replaces/repeat replaces/swap replaces/taken shared/told wait/above",
	releaseKeepsReservation: "queue/no-overtaking reserve/release wait/missed-wake-up",
	sharedPretended:         "shared/unsupported",
	holdIsNone:              "reserve/hold",
	passAboveIgnored:        "pass/above",
	passAnyToken:            "limits/token-of-no-hold",
	passAndKeeps:            "pass/hands-over pass/queue-first",
	passForAnybody:          "pass/nothing",
	passKeepsFence:          "pass/above pass/hands-over",
	passNever:               "pass/hands-over pass/repeat",
	passOvertakes:           "pass/queue-first",
	passRefusesAgain:        "pass/repeat",
	passUnchecked:           "pass/invalid",
	batchEndsEarly:          "batch/each",
	batchOutOfOrder:         "batch/each",
	batchOnlyVerifies:       "batch/each",
	batchUnchecked:          "batch/invalid",
	slotAlwaysFirst:         "slots/queue slots/repeat slots/takes",
	slotOvertakes:           "slots/queue",
	slotRepeatTakesAnother:  "slots/repeat",
	slotUnchecked:           "slots/invalid",
	slotRefusedForEver:      "slots/takes",
	refusedForEver:          "acquire/refused-again lost-reply/refused",
	refusedKeepsFence:       "acquire/refused-again lost-reply/refused",
	refusalComesBack:        "lost-reply/refused",
	refusalIsCleanedUp:      "lost-reply/refused",
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
	case detachedIsBound:
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
