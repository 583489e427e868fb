package fakes

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

const collection = "/apis/coordination.k8s.io/v1/namespaces/shop/leases"

// maxAnnotations is how long all annotations of an object may be together, in bytes.
const maxAnnotations = 256 << 10

// Kubernetes is an API server with Lease objects in the namespace shop. As the API server of
// Kubernetes does, it refuses to replace an object whose resourceVersion or uid is not the one in
// the request, makes a missing object in place of replacing it if the request has no uid, counts
// versions for all objects together, and refuses names that are none of DNS.
type Kubernetes struct {
	Mu      sync.Mutex // guards the other fields
	Objects map[string]Object
	Gone    string // how a watch from a version is refused: "status" or "event"
	Never   bool   // a watch without a version is refused, too

	version int
	changed chan struct{} // closed at the next write
}

// An Object is a Lease.
type Object struct {
	APIVersion string         `json:"apiVersion"`
	Kind       string         `json:"kind"`
	Metadata   Meta           `json:"metadata"`
	Spec       map[string]any `json:"spec"`
}

// Meta is what every object has.
type Meta struct {
	Name            string            `json:"name"`
	ResourceVersion string            `json:"resourceVersion"`
	UID             string            `json:"uid"`
	Labels          map[string]string `json:"labels"`
	Annotations     map[string]string `json:"annotations"`
	Owners          json.RawMessage   `json:"ownerReferences,omitempty"`
	Finalizers      json.RawMessage   `json:"finalizers,omitempty"`
}

// NewKubernetes returns an API server without objects.
func NewKubernetes() *Kubernetes {
	return &Kubernetes{Objects: map[string]Object{}, changed: make(chan struct{})}
}

// ServeHTTP answers a request.
func (f *Kubernetes) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json") // client-go reads nothing else
	name, found := strings.CutPrefix(r.URL.Path, collection)
	name = strings.TrimPrefix(name, "/")
	if r.URL.Query().Get("watch") == "1" {
		f.watch(w, r)
		return
	}
	f.Mu.Lock()
	defer f.Mu.Unlock()
	o, exists := f.Objects[name]
	switch {
	case !found || strings.HasSuffix(r.URL.Path, "/"):
		fail(w, http.StatusNotFound)
	case r.Method == http.MethodGet && name == "":
		f.list(w, r)
	case r.Method == http.MethodGet && exists:
		json.NewEncoder(w).Encode(o)
	case r.Method == http.MethodPost && name == "":
		f.write(w, r, "")
	case r.Method == http.MethodPut && name != "":
		f.write(w, r, name)
	case r.Method == http.MethodGet:
		fail(w, http.StatusNotFound)
	default:
		fail(w, http.StatusMethodNotAllowed)
	}
}

// write makes an object, or replaces the one with the name.
func (f *Kubernetes) write(w http.ResponseWriter, r *http.Request, name string) {
	var o Object
	body, _ := io.ReadAll(r.Body)
	if err := json.Unmarshal(body, &o); err != nil || o.Kind != "Lease" || o.APIVersion != "coordination.k8s.io/v1" || strings.Trim(o.Metadata.Name, "abcdefghijklmnopqrstuvwxyz0123456789-.") != "" || len(o.Metadata.Name) > 253 {
		fail(w, http.StatusUnprocessableEntity)
		return
	}
	long := 0
	for key, value := range o.Metadata.Annotations {
		long += len(key) + len(value)
	}
	if long > maxAnnotations {
		fail(w, http.StatusUnprocessableEntity)
		return
	}
	there, exists := f.Objects[o.Metadata.Name]
	switch {
	case name == "" && (exists || o.Metadata.ResourceVersion != ""), // AlreadyExists; the version of a new object
		name != "" && exists && there.Metadata.ResourceVersion != o.Metadata.ResourceVersion,
		name != "" && o.Metadata.UID != "" && there.Metadata.UID != o.Metadata.UID,
		name != "" && name != o.Metadata.Name:
		fail(w, http.StatusConflict)
		return
	}
	f.version++
	o.Metadata.ResourceVersion, o.Metadata.UID = strconv.Itoa(f.version), there.Metadata.UID
	if !exists {
		o.Metadata.UID = "uid-" + o.Metadata.ResourceVersion
	}
	f.Objects[o.Metadata.Name] = o
	close(f.changed)
	f.changed = make(chan struct{})
	json.NewEncoder(w).Encode(o)
}

func (f *Kubernetes) list(w http.ResponseWriter, r *http.Request) {
	label, value, _ := strings.Cut(r.URL.Query().Get("labelSelector"), "=")
	var items []Object
	for _, name := range slices.Sorted(maps.Keys(f.Objects)) {
		if f.Objects[name].Metadata.Labels[label] == value {
			items = append(items, f.Objects[name])
		}
	}
	json.NewEncoder(w).Encode(map[string]any{"kind": "LeaseList", "items": items})
}

// watch answers when an object has another version, or after some time. Without a version it shows
// the object first.
func (f *Kubernetes) watch(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	name := strings.TrimPrefix(q.Get("fieldSelector"), "metadata.name=")
	seconds, err := strconv.Atoi(q.Get("timeoutSeconds"))
	if err != nil || r.URL.Path != collection {
		fail(w, http.StatusBadRequest)
		return
	}
	f.Mu.Lock()
	gone, version := f.Gone, q.Get("resourceVersion")
	if version == "" && !f.Never {
		gone, version = "", f.Objects[name].Metadata.ResourceVersion
		json.NewEncoder(w).Encode(map[string]any{"type": "ADDED", "object": f.Objects[name]})
	}
	f.Mu.Unlock()
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
		f.Mu.Lock()
		o, changed := f.Objects[name], f.changed
		f.Mu.Unlock()
		if o.Metadata.ResourceVersion != version {
			json.NewEncoder(w).Encode(map[string]any{"type": "MODIFIED", "object": o})
			return
		}
		select {
		case <-changed:
		case <-r.Context().Done():
			return
		case <-end:
			return
		}
	}
}

// Empty deletes all objects.
func (f *Kubernetes) Empty() {
	f.Mu.Lock()
	defer f.Mu.Unlock()
	clear(f.Objects)
}

func fail(w http.ResponseWriter, status int) {
	w.WriteHeader(status)
	fmt.Fprintf(w, `{"kind":"Status","status":"Failure","code":%d}`, status)
}
