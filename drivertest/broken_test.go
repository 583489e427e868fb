package drivertest

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock/driver"
)

// broken lists, for each bug, the cases that find it: all of them and no
// others.
var broken = map[bug][]string{
	actsOnOldNews:             {},
	anyLabel:                  {},
	anyName:                   {},
	anyTTL:                    {},
	atLeastDiesWithRelease:    {},
	atLeastIgnored:            {},
	boundOutlivesCut:          {},
	boundOutlivesSilence:      {},
	breakLeavesCoolDown:       {},
	breakMintsNothing:         {},
	breakWakesNobody:          {},
	breaksAnything:            {},
	cancelHidesGrant:          {},
	cancelIsARefusal:          {},
	cancelStays:               {},
	claimIsShort:              {},
	claimMints:                {},
	closeDropsHolds:           {},
	closeForgetsWaiters:       {},
	closeLeaks:                {},
	convertTakes:              {},
	coolDownForgotten:         {},
	coolDownLooksHeld:         {},
	cutDropsHolds:             {},
	demotionDoesNothing:       {},
	demotionMints:             {},
	errorBecomesHeld:          {},
	everyWaitTakesAPlace:      {},
	expiredForLost:            {},
	extendAfterRelease:        {},
	extendAnybody:             {},
	extendCutsAtLeast:         {},
	extendDoesNothing:         {},
	extendRevives:             {},
	extendShortens:            {},
	extendTheTaker:            {},
	fenceAboveIgnored:         {},
	fenceAboveOnce:            {},
	fenceCounts:               {},
	fenceForgotten:            {},
	fenceTooBig:               {},
	foreignersUnmarked:        {},
	givenUpWaitDropsHold:      {},
	guaranteesChange:          {},
	heldByNobody:              {},
	heldByTheFirst:            {},
	heldErrorIsPlain:          {},
	heldSinceLong:             {},
	heldUntilTheStart:         {},
	heldWithoutPlan:           {},
	inspectTakes:              {},
	inspectTellsLapsed:        {},
	inspectTellsOldFence:      {},
	intentForEver:             {},
	intentLetsIn:              {},
	intentNotWithdrawn:        {},
	intentOutlivesRelease:     {},
	invalidUnnamed:            {},
	keepReplacesAtLeast:       {},
	lastComeFirst:             {},
	lateReleaseSaysReleased:   {},
	listIgnoresPrefix:         {},
	listMatchesPatterns:       {},
	listStopsAtHundred:        {},
	listTellsFreeNames:        {},
	namesCleaned:              {},
	namesCut:                  {},
	namesEndAtZero:            {},
	namesFolded:               {},
	namesHashed:               {},
	namesHaveKeysBeside:       {},
	namesTrimmed:              {},
	namesUTF8:                 {},
	overtakes:                 {},
	promotersWaitForEachOther: {},
	promotesBesideReaders:     {},
	promotionKeepsFence:       {},
	promotionLosesHold:        {},
	raiseDoesNothing:          {},
	raiseLowers:               {},
	raiseNeverFails:           {},
	raisesTooFar:              {},
	readerShortensOthers:      {},
	readersFenceOld:           {},
	readersIgnoreWriters:      {},
	readersShareALease:        {},
	releaseAnybody:            {},
	releaseFreesAllReaders:    {},
	repeatConverts:            {},
	repeatIsRefused:           {},
	repeatKeepsLease:          {},
	repeatMints:               {},
	replacesAndKeeps:          {},
	replacesConverts:          {},
	replacesForgetsAtLeast:    {},
	replacesFreshly:           {},
	replacesKeepsFence:        {},
	reservationForEver:        {},
	reservationIsShort:        {},
	reservesUnasked:           {},
	restartLosesAll:           {},
	secondReleaseRemoves:      {},
	secondReleaseSaysReleased: {},
	sharedIsExclusive:         {},
	staleReleaseCools:         {},
	staleReleaseRemoves:       {},
	statusWithoutValue:        {},
	tokenInError:              {},
	verifyRenews:              {},
	waitSpins:                 {},
	waitersUncounted:          {},
	waitsForTheSilent:         {},
	wakeUpMissed:              {},
	wakesOnlyAtRelease:        {},
	wokenKeepsItsPlace:        {},
	writersIgnoreReaders:      {},
	wrongTokenIsTaken:         {},
}

// TestBrokenStores runs the suite against a store with one bug at a time.
func TestBrokenStores(t *testing.T) {
	for b, want := range broken {
		t.Run(string(b), func(t *testing.T) {
			t.Parallel()
			got := failing(t, func() *world { return brokenWorld(b) })
			slices.Sort(want)
			if !slices.Equal(names(got), want) {
				t.Errorf("the cases that fail are %q, want %q", names(got), want)
				for _, f := range got {
					t.Log(f)
				}
			}
		})
	}
}

func brokenWorld(b bug) *world {
	w := newWorld(b)
	switch b {
	case cancelHidesGrant:
		w.trip = time.Millisecond
	case boundOutlivesCut, boundOutlivesSilence:
		w.g.Bound, w.g.SurvivesRestart = driver.ToConnection, driver.No
	}
	return w
}

// failing runs the whole suite in a bubble.
func failing(t *testing.T, make func() *world) (out []Failure) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := make()
		out = Check(w.harness())
		close(w.leak)
	})
	return out
}

func names(fs []Failure) (out []string) {
	for _, f := range fs {
		out = append(out, f.Case)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// TestRightStores runs the suite against stores without a bug, so that each
// promise is seen from both sides.
func TestRightStores(t *testing.T) {
	kinds := map[string]func(*world){
		"all there is": func(w *world) {},
		"far away":     func(w *world) { w.trip = 3 * time.Millisecond },
		"bound to a connection": func(w *world) {
			w.g.Bound, w.g.SurvivesRestart, w.g.LossDelay = driver.ToConnection, driver.No, time.Second
		},
		"bound, without leases": func(w *world) {
			w.g.Bound, w.g.SurvivesRestart, w.g.Lease = driver.ToConnection, driver.No, false
		},
		"without fences":      func(w *world) { w.g.Fence = driver.NoFence },
		"without readers":     func(w *world) { w.g.Shared, w.g.Promotion = false, driver.NoPromotion },
		"without promotion":   func(w *world) { w.g.Promotion = driver.NoPromotion },
		"promotion re-grants": func(w *world) { w.g.Promotion = driver.Regrant },
		"without cool-downs":  func(w *world) { w.g.CoolDown = false },
		"coarse leases":       func(w *world) { w.g.MinTTL, w.g.MaxTTL = 2*time.Second, time.Hour },
	}
	for kind, change := range kinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			right := func() *world {
				w := newWorld("")
				change(w)
				return w
			}
			for _, f := range failing(t, right) {
				t.Error(f)
			}
		})
	}
}
