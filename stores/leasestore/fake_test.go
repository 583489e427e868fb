package leasestore_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock/storekit/overhttp/overhttptest"
	"github.com/padlock-go/padlock/storekit/register"
	"github.com/padlock-go/padlock/stores/leasestore"
)

const collection = "/apis/coordination.k8s.io/v1/namespaces/shop/leases"

// fake is an API server with Lease objects in one namespace. As the API server of Kubernetes does,
// it refuses to replace an object whose resourceVersion is not the one in the request, counts
// versions for all objects together, and refuses names that are none of DNS.
type fake struct {
	mu      sync.Mutex
	objects map[string]object
	version int
	changed chan struct{} // closed at the next write
	gone    string        // how a watch from a version is refused: "status" or "event"
	never   bool          // a watch without a version is refused, too
}

type object struct {
	APIVersion string         `json:"apiVersion"`
	Kind       string         `json:"kind"`
	Metadata   meta           `json:"metadata"`
	Spec       map[string]any `json:"spec"`
}

type meta struct {
	Name            string            `json:"name"`
	ResourceVersion string            `json:"resourceVersion"`
	Labels          map[string]string `json:"labels"`
	Annotations     map[string]string `json:"annotations"`
}

func newFake() *fake { return &fake{objects: map[string]object{}, changed: make(chan struct{})} }

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name, found := strings.CutPrefix(r.URL.Path, collection)
	name = strings.TrimPrefix(name, "/")
	if r.URL.Query().Get("watch") == "1" {
		f.watch(w, r)
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	o, exists := f.objects[name]
	switch {
	case !found || strings.HasSuffix(r.URL.Path, "/"):
		fail(w, http.StatusNotFound)
	case r.Method == http.MethodGet && name == "":
		f.list(w, r)
	case r.Method == http.MethodGet && exists:
		json.NewEncoder(w).Encode(o)
	case r.Method == http.MethodPost && name == "":
		f.write(w, r, "")
	case r.Method == http.MethodPut && exists:
		f.write(w, r, name)
	case r.Method == http.MethodGet || r.Method == http.MethodPut:
		fail(w, http.StatusNotFound)
	default:
		fail(w, http.StatusMethodNotAllowed)
	}
}

// write makes an object, or replaces the one with the name.
func (f *fake) write(w http.ResponseWriter, r *http.Request, name string) {
	var o object
	body, _ := io.ReadAll(r.Body)
	if err := json.Unmarshal(body, &o); err != nil || o.Kind != "Lease" || o.APIVersion != "coordination.k8s.io/v1" || strings.Trim(o.Metadata.Name, "abcdefghijklmnopqrstuvwxyz0123456789-.") != "" || len(o.Metadata.Name) > 253 {
		fail(w, http.StatusUnprocessableEntity)
		return
	}
	there, exists := f.objects[o.Metadata.Name]
	switch {
	case name == "" && (exists || o.Metadata.ResourceVersion != ""), // AlreadyExists; the version of a new object
		name != "" && there.Metadata.ResourceVersion != o.Metadata.ResourceVersion,
		name != "" && name != o.Metadata.Name:
		fail(w, http.StatusConflict)
		return
	}
	f.version++
	o.Metadata.ResourceVersion = strconv.Itoa(f.version)
	f.objects[o.Metadata.Name] = o
	close(f.changed)
	f.changed = make(chan struct{})
	json.NewEncoder(w).Encode(o)
}

func (f *fake) list(w http.ResponseWriter, r *http.Request) {
	label, value, _ := strings.Cut(r.URL.Query().Get("labelSelector"), "=")
	var items []object
	for _, name := range slices.Sorted(maps.Keys(f.objects)) {
		if f.objects[name].Metadata.Labels[label] == value {
			items = append(items, f.objects[name])
		}
	}
	json.NewEncoder(w).Encode(map[string]any{"items": items})
}

// watch answers when an object has another version, or after some time. Without a version it shows
// the object first.
func (f *fake) watch(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	name := strings.TrimPrefix(q.Get("fieldSelector"), "metadata.name=")
	seconds, err := strconv.Atoi(q.Get("timeoutSeconds"))
	if err != nil || r.URL.Path != collection {
		fail(w, http.StatusBadRequest)
		return
	}
	f.mu.Lock()
	gone, version := f.gone, q.Get("resourceVersion")
	if version == "" && !f.never {
		gone, version = "", f.objects[name].Metadata.ResourceVersion
		json.NewEncoder(w).Encode(map[string]any{"type": "ADDED", "object": f.objects[name]})
	}
	f.mu.Unlock()
	switch gone {
	case "status":
		fail(w, http.StatusGone)
		return
	case "event":
		io.WriteString(w, `{"type":"ERROR","object":{"kind":"Status","metadata":{},"status":"Failure","code":410}}`+"\n")
		return
	}
	end := time.After(time.Duration(seconds) * time.Second)
	for {
		f.mu.Lock()
		o, changed := f.objects[name], f.changed
		f.mu.Unlock()
		if o.Metadata.ResourceVersion != version {
			json.NewEncoder(w).Encode(map[string]any{"type": "MODIFIED", "object": o})
			return
		}
		select {
		case <-changed:
		case <-end:
			return
		}
	}
}

func (f *fake) empty() {
	f.mu.Lock()
	defer f.mu.Unlock()
	clear(f.objects)
}

func fail(w http.ResponseWriter, status int) {
	w.WriteHeader(status)
	fmt.Fprintf(w, `{"kind":"Status","status":"Failure","code":%d}`, status)
}

// inMemory runs a test over a fake, in time that costs nothing.
func inMemory(t *testing.T, test func(t *testing.T, f *fake, s *overhttptest.Service)) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		s := overhttptest.Start(f)
		s.Kind = func(r *http.Request) string {
			switch {
			case r.URL.Query().Has("watch"):
				return "watch"
			case r.Method == http.MethodPost || r.Method == http.MethodPut:
				return "write"
			}
			return "read"
		}
		defer s.Stop()
		test(t, f, s)
	})
}

func openOn(ctx context.Context, f *overhttptest.Front, server bool) (*register.Store, error) {
	return leasestore.Open(ctx, leasestore.Config{
		Namespace: "shop", Prefix: "locks/", Endpoint: "http://memory", ServerClock: server, Transport: f.Transport(),
	})
}
