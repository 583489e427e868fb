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
		acquireCases, tokenCases, heldCases, extendCases, batchCases, releaseCases, coolDownCases, replacesCases, detachedCases,
		fenceCases, raiseCases, sharedCases, promoteCases, convertCases, convertedCases,
		slotCases, waitCases, coolWaitCases, queueCases, giveUpCases, reserveCases, passCases, contextCases, faultCases,
		nameCases, limitCases, abilityCases, inspectCases, listCases, breakCases, identifyCases, recordCases,
		boundCases, clockCases, closeCases, crowdCases, watchCases,
	)
}

func containsFold(s, sub string) bool {
	return strings.Contains(strings.ToLower(s), strings.ToLower(sub))
}
