package padlockapi

import (
	"net/http"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/httpapi"
)

// promises is the answer to store.
type promises = httpapi.Promises

var fenceWords = map[driver.Fence]string{driver.FenceNone: "none", driver.FenceSession: "session", driver.FenceDurable: "durable"}

var promiseWords = map[driver.Promise]string{driver.PromiseNo: "no", driver.PromisePartly: "partly", driver.PromiseYes: "yes"}

// describe says what the store promises, and what this visitor may do with it.
func describe(q *query) reply {
	if r := q.checkStore(); r.status != 0 {
		return r
	}
	g := q.where.store.Guarantees()
	out := promises{
		Store: g.Store, ID: q.storeID(), Fence: fenceWords[g.Fence], SharedFence: promiseWords[g.SharedFence],
		SurvivesRestart: promiseWords[g.SurvivesRestart], SurvivesFailover: promiseWords[g.SurvivesFailover],
		SafeClockJump: promiseWords[g.SafeClockJump], SafeEviction: promiseWords[g.SafeEviction],
		MinTTLMS: g.MinTTL.Milliseconds(), MaxTTLMS: g.MaxTTL.Milliseconds(), MaxName: g.MaxName, MaxLabel: g.MaxLabel,
		Shared:   g.Shared && g.Bound == driver.BoundToNothing, // a detached hold is exclusive
		CoolDown: g.CoolDown, Observed: g.Observed, Hashed: g.Hashed, Notes: append([]string{}, g.Notes...),
	}
	_, out.RaiseFence = fenceRaiser(q.where.store)
	if _, ok := driver.As[driver.Admin](q.where.store); ok {
		out.Ask = q.who.Ask && q.keepsQuestions()
		out.Status = q.who.Read && g.Lacks&driver.AbilityInspect == 0
		out.List = q.who.Read && g.Lacks&driver.AbilityList == 0
		out.Break = q.who.Break && q.who.Name != "" && q.api.allowBreak && g.Lacks&driver.AbilityBreak == 0 && g.Fence != driver.FenceNone
	}
	return reply{http.StatusOK, out}
}

// storeID returns the id of the store, or "" if it has none or cannot be reached now.
func (q *query) storeID() string {
	places, ok := driver.As[driver.Places](q.where.store)
	if !ok {
		return ""
	}
	ctx, cancel := q.patient()
	defer cancel()
	id, err := places.StoreID(ctx)
	if err != nil {
		return ""
	}
	return id
}
