package padlockapi

import (
	"net/http"

	"github.com/padlock-go/padlock/driver"
)

// promises is the answer to store: what a client can rely on. A limit of 0 is that of every store.
type promises struct {
	Store            string   `json:"store"`
	ID               string   `json:"id,omitempty"`
	Fence            string   `json:"fence"`
	SharedFence      string   `json:"shared_fence"`
	SurvivesRestart  string   `json:"survives_restart"`
	SurvivesFailover string   `json:"survives_failover"`
	SafeClockJump    string   `json:"safe_clock_jump"`
	SafeEviction     string   `json:"safe_eviction"`
	MinTTLMS         int64    `json:"min_ttl_ms"`
	MaxTTLMS         int64    `json:"max_ttl_ms"`
	MaxName          int      `json:"max_name"`
	MaxLabel         int      `json:"max_label"`
	Shared           bool     `json:"shared"`
	CoolDown         bool     `json:"cool_down"`
	Observed         bool     `json:"observed"`
	Hashed           bool     `json:"hashed"`
	Status           bool     `json:"status"`
	List             bool     `json:"list"`
	Break            bool     `json:"break"`
	Notes            []string `json:"notes"`
}

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
	if _, ok := driver.As[driver.Admin](q.where.store); ok {
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
