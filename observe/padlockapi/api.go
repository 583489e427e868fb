package padlockapi

import (
	"context"
	_ "embed"
	"errors"
	"log/slog"
	"mime"
	"net/http"
	"strings"
	"sync"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/remote"
)

// API is the http.Handler that Handler returns. It is safe for concurrent use.
type API struct {
	settings
	store   driver.Store
	clock   driver.Clock
	origin  *http.CrossOriginProtection
	paths   map[string]*operation
	waits   waits
	ledger  ledger
	records remote.Records

	mu      sync.Mutex
	tenants map[string]*tenant // by prefix; "" for visitors that are no tenants
}

// tenant is the store as the visitors with one prefix see it.
type tenant struct {
	prefix string
	store  driver.Store
	locker *padlock.Locker
}

// Handler returns an http.Handler that offers the locks of store. It answers below the path "/v1/".
// When the Handler is no longer used, close it. It does not close the store.
func Handler(store driver.Store, opts ...Option) *API {
	a := &API{
		settings: settings{logger: slog.New(slog.DiscardHandler), maxWaits: DefaultMaxWaits, maxNames: maxNames},
		store:    store, clock: driver.SystemClock(), origin: http.NewCrossOriginProtection(),
		paths: make(map[string]*operation), tenants: make(map[string]*tenant),
	}
	for _, o := range opts {
		if o != nil {
			o(&a.settings)
		}
	}
	if a.broken { // a nil usually comes from a configuration that could not be read
		a.tokens, a.authorize, a.open = nil, nil, false
	}
	if !a.hasRule() {
		a.logger.Error(noRule)
	}
	a.waits = waits{most: a.maxWaits, each: max(1, a.maxWaits/2), table: make(map[waitID]*wait), by: make(map[string]int)}
	a.ledger = ledger{most: a.maxNames, by: make(map[string]map[waitID]entry), swept: a.clock.Now()}
	for i := range operations {
		a.paths[operations[i].path] = &operations[i]
	}
	return a
}

// Close ends all waits: their requests get the status 503. It releases no locks, because the
// clients still have them. Close waits for the requests that came before it, for which the store
// may need up to 20 seconds. A release that comes later still uses the store; every other request
// gets the status 503. So close the store after the http.Server has shut down.
func (a *API) Close() error {
	a.waits.close()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	a.mu.Lock()
	defer a.mu.Unlock()
	var err error
	for _, t := range a.tenants {
		err = errors.Join(err, t.locker.Close(ctx))
	}
	return err
}

// Waiting returns how many clients wait for each name. The store counts them as one.
func (a *API) Waiting() map[string]int {
	a.waits.mu.Lock()
	defer a.waits.mu.Unlock()
	all := map[string]int{}
	for id, one := range a.waits.table {
		if !one.ended {
			all[id.tenant+id.name]++
		}
	}
	return all
}

// tenantOf returns the store as the visitor sees it.
func (a *API) tenantOf(v *Visitor) *tenant {
	prefix := ""
	if v.Tenant {
		prefix = v.Prefix
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	t := a.tenants[prefix]
	if t == nil {
		store := padlock.WithPrefix(a.store, prefix)
		// maxWaits bounds the waiting callers already.
		t = &tenant{prefix, store, padlock.New(unnamed{store}, padlock.KeepStoreOpen(), padlock.MaxWaiters(a.maxWaits+1))}
		a.tenants[prefix] = t
	}
	return t
}

// unnamed is a store whose id nobody asks for. Each grant is exported, and a Locker puts the id of
// the store into every key that it exports. The API throws these keys away. On most stores the id
// costs a request, so an acquire would cost two.
type unnamed struct{ driver.Store }

func (u unnamed) Unwrap() driver.Store { return u.Store }

func (u unnamed) Guarantees() driver.Guarantees {
	g := u.Store.Guarantees()
	g.Lacks |= driver.AbilityStoreID
	return g
}

// operation is one path of the API.
type operation struct {
	path     string
	right    right
	accepts  []string // the fields of the body
	needs    []string // the fields that must be there
	serve    func(*query) reply
	statuses []int // which serve returns; every path also has those of ServeHTTP
}

var operations = []operation{
	{
		"/v1/acquire", rightAcquire,
		[]string{"name", "name_base64", "token", "ttl_ms", "wait_ms", "keep_ms", "shared", "slots", "label", "fence_above", "replaces"}, []string{"name", "token"},
		acquire, []int{200, 202, 409, 410, 429, 501, 503, 504},
	},
	{
		"/v1/extend", rightAcquire, []string{"name", "name_base64", "token", "slot", "ttl_ms", "fence_at_least"}, []string{"name", "token"},
		extend, []int{200, 410, 501, 503, 504},
	},
	{
		"/v1/release", rightAcquire, []string{"name", "name_base64", "token", "slot", "keep_ms"}, []string{"name", "token"},
		release, []int{200, 501, 503, 504},
	},
	{"/v1/status", rightRead, []string{"name", "name_base64", "slot"}, []string{"name"}, status, []int{200, 501, 503, 504}},
	{"/v1/list", rightRead, []string{"prefix", "prefix_base64"}, nil, listNames, []int{200, 501, 503, 504}},
	{
		"/v1/break", rightBreak, []string{"name", "name_base64", "slot", "fence", "reason"}, []string{"name", "fence"},
		breakHolds, []int{200, 409, 501, 503, 504},
	},
	{
		"/v1/ask", rightAsk, []string{"name", "name_base64", "reason"}, []string{"name"},
		ask, []int{200, 409, 410, 501, 503, 504},
	},
	{"/v1/store", rightAny, nil, nil, describe, []int{200, 501, 503}},
}

//go:embed openapi.json
var openAPI []byte

const openAPIPath = "/v1/openapi.json"

// ServeHTTP serves the paths that the package comment lists.
func (a *API) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	q := &query{api: a, r: r, rw: rw, at: a.clock.Now(), from: remote.Address(r.RemoteAddr), requestBody: &requestBody{}}
	rw.Header().Set("Cache-Control", "no-store")
	rw.Header().Set("X-Content-Type-Options", "nosniff")
	if r.URL.Path == openAPIPath && r.Method == http.MethodGet {
		rw.Header().Set("Content-Type", "application/json")
		rw.Write(openAPI)
		return
	}
	a.answer(q).write(rw)
}

// answer serves a request up to its operation. The body is read after the rights of the visitor are
// known.
func (a *API) answer(q *query) reply {
	q.op = a.paths[q.r.URL.Path]
	if r := q.checkHead(); r.status != 0 {
		return r
	}
	if r := q.admit(); r.status != 0 {
		return r
	}
	text, err := readBody(q.r.Body)
	switch {
	case errors.Is(err, errTooLarge):
		return refuse(http.StatusRequestEntityTooLarge, "too_large", err.Error())
	case err != nil:
		return refuse(http.StatusBadRequest, "invalid", "the body did not arrive")
	}
	if q.requestBody, err = parseBody(text, q.op); err != nil {
		q.requestBody = &requestBody{}
		return refuse(http.StatusBadRequest, "invalid", err.Error())
	}
	if r := q.checkName(); r.status != 0 {
		return r
	}
	if a.waits.enter() {
		defer a.waits.running.Done()
	} else if q.op.path != "/v1/release" {
		return refuseWait(errClosing)
	}
	q.where = a.tenantOf(&q.who)
	return q.finish(q.op.serve(q))
}

// finish writes why the store did not serve the request to the log, since the answer must not tell.
// It leaves out the holders for a visitor who may not read who has a lock.
func (q *query) finish(r reply) reply {
	switch p := r.json.(type) {
	case failed:
		q.audit(slog.LevelWarn, "unavailable", slog.String("error", p.cause.Error()))
		r.json = p.problem
	case problem:
		if !q.who.Read {
			p.Holders = nil
		}
		r.json = p
	}
	return r
}

// checkHead checks what does not depend on the visitor. A page of another site cannot send this
// type of content without the consent of this server, which never gives it.
func (q *query) checkHead() reply {
	if q.op == nil {
		return refuse(http.StatusNotFound, "unknown_path", "see "+openAPIPath)
	}
	if !q.api.hosts.Allow(q.r) {
		return refuse(http.StatusMisdirectedRequest, "host", "this host name is not allowed here; see --allowed-host of padlock serve, or padlockapi.Hosts")
	}
	if q.r.Method != http.MethodPost {
		q.rw.Header().Set("Allow", http.MethodPost)
		return refuse(http.StatusMethodNotAllowed, "method", "send a POST")
	}
	if q.api.origin.Check(q.r) != nil {
		return refuse(http.StatusForbidden, "forbidden", "the request came from a page of another site")
	}
	kind, params, err := mime.ParseMediaType(q.r.Header.Get("Content-Type"))
	if charset := params["charset"]; err != nil || kind != "application/json" || charset != "" && !strings.EqualFold(charset, "utf-8") {
		return refuse(http.StatusUnsupportedMediaType, "content_type", "send the header Content-Type: application/json")
	}
	return reply{}
}
