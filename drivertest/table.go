package drivertest

import (
	"slices"
	"strings"
)

// table has every case. init fills it, because some cases use the table to find those with a watch
// function, and Go forbids an initializer that refers to itself.
var table []testCase

func init() {
	table = slices.Concat(
		acquireCases, tokenCases, heldCases, extendCases, refusedCases, lostCases, releaseCases, replacesCases, detachedCases,
		needing(batchCases, batches, leases), needing(coolDownCases, coolDowns),
		needing(fenceCases, fences), needing(raiseCases, raises, fences),
		needing(sharedCases, readers), needing(promoteCases, converts, promotes, readers), needing(convertCases, converts),
		needing(slotCases, takesSlots), needing(passCases, passes),
		needing(slices.Concat(waitCases, meanwhileCases, coolWaitCases, queueCases, giveUpCases, reserveCases), waits), contextCases, alone(faultCases), alone(needing(fullCases, full)),
		nameCases, limitCases, abilityCases, needing(inspectCases, inspects), needing(listCases, lists),
		needing(breakCases, breaks, inspects), identifyCases, needing(recordCases, records),
		boundCases, clockCases, closeCases, crowdCases, watchCases,
	)
}

// needing adds what all of the cases need.
func needing(cases []testCase, needs ...need) []testCase {
	for i := range cases {
		cases[i].needs = slices.Concat(needs, cases[i].needs)
	}
	return cases
}

func alone(cases []testCase) []testCase {
	for i := range cases {
		cases[i].alone = true
	}
	return cases
}

func containsFold(s, sub string) bool {
	return strings.Contains(strings.ToLower(s), strings.ToLower(sub))
}
