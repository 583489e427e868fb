package leasestore

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit/overhttp"
	"github.com/padlock-go/padlock/storekit/register"
)

// leases is a register: the value of a name is an annotation of a Lease, and its version is the
// resourceVersion of that object, which changes with each write, with a slash and the object's uid.
// Without the uid, the server would make a deleted object again from the record of a late write.
type leases struct {
	*overhttp.Client
	prefix   string
	clock    string // "observed" or "server": the times in a record mean nothing to the other one
	election bool   // the layout of client-go's leader election
	others   others
}

// A lease is as much of a Lease as the store needs.
type lease struct {
	APIVersion string   `json:"apiVersion"`
	Kind       string   `json:"kind"`
	Metadata   metadata `json:"metadata"`
	Spec       spec     `json:"spec"`
}

type metadata struct {
	Name            string            `json:"name"`
	ResourceVersion string            `json:"resourceVersion,omitempty"`
	UID             string            `json:"uid,omitempty"`
	Labels          map[string]string `json:"labels,omitempty"`
	Annotations     map[string]string `json:"annotations,omitempty"`
	Owners          json.RawMessage   `json:"ownerReferences,omitempty"`
	Finalizers      json.RawMessage   `json:"finalizers,omitempty"`
}

// A spec is for people who look at the object. In the layout of client-go it names the holder of
// the lock, and has the length of the lease since it was written.
type spec struct {
	Holder   string `json:"holderIdentity,omitempty"`
	Seconds  int    `json:"leaseDurationSeconds,omitempty"`
	Acquired string `json:"acquireTime,omitempty"`
	Renewed  string `json:"renewTime,omitempty"`
	// Transitions is how often client-go has changed the holder. Padlock keeps it only with a
	// spec of client-go.
	Transitions int `json:"leaseTransitions,omitempty"`
	// Strategy and Preferred belong to coordinated leader election. Padlock keeps them as they are.
	Strategy  string `json:"strategy,omitempty"`
	Preferred string `json:"preferredHolder,omitempty"`
}

const (
	group        = "padlock-go.github.io/"
	managedBy    = "app.kubernetes.io/managed-by"
	recordNote   = group + "record"
	nameNote     = group + "name" // in base64: a name may have any bytes
	prefixNote   = group + "prefix"
	clockNote    = group + "clock"
	specNote     = group + "spec"
	ownObjects   = "padlock-"
	lengthOfHash = 20
)

// object returns the name of the object. The name of an object is a name of DNS; that of a lock has
// any bytes.
func (l *leases) object(name string) string {
	if l.election && isObjectName(name) {
		return name
	}
	sum := sha256.Sum256([]byte(l.prefix + "\x00" + name))
	return ownObjects + hex.EncodeToString(sum[:lengthOfHash])
}

// Get reads an object.
func (l *leases) Get(ctx context.Context, name string) (v register.Value, err error) {
	r, err := l.Read(ctx, overhttp.Request{Path: "leases/" + l.object(name)})
	if err != nil {
		return v, err
	}
	if v.Now, err = r.Date(); err != nil {
		return v, err
	}
	var o lease
	switch {
	case isMissing(r):
		return v, nil
	case r.Err() != nil:
		return v, r.Err()
	case json.Unmarshal(r.Body, &o) != nil || o.Metadata.ResourceVersion == "":
		return v, fmt.Errorf("%w: the reply of the server is no Lease", driver.ErrUnavailable)
	case l.election:
		l.others.note(&o)
		v.Version = o.Metadata.version()
		v.Data, err = recordOf(&o)
		return v, err
	case o.Metadata.Annotations[clockNote] != l.clock:
		return v, fmt.Errorf("%w: %q was written with clock=%s, and this program has clock=%s: use the same everywhere", driver.ErrUnavailable, name, o.Metadata.Annotations[clockNote], l.clock)
	}
	v.Data, v.Version = []byte(o.Metadata.Annotations[recordNote]), o.Metadata.version()
	return v, nil
}

func (m *metadata) version() string { return m.ResourceVersion + "/" + m.UID }

// isMissing reports whether the API server says that an object does not exist. A load balancer with
// no server behind it answers 404, too, but says nothing of the kind.
func isMissing(r *overhttp.Reply) bool {
	var o lease
	return r.Status == http.StatusNotFound && json.Unmarshal(r.Body, &o) == nil && o.Kind == "Status"
}

// Put makes an object, or replaces it if it still has the version.
func (l *leases) Put(ctx context.Context, name string, data []byte, version string) error {
	written, uid, _ := strings.Cut(version, "/")
	o := lease{
		APIVersion: "coordination.k8s.io/v1", Kind: "Lease",
		Metadata: metadata{
			Name: l.object(name), ResourceVersion: written, UID: uid,
			Labels: map[string]string{managedBy: "padlock"},
			Annotations: map[string]string{
				recordNote: string(data), nameNote: base64.StdEncoding.EncodeToString([]byte(name)),
				prefixNote: l.prefix, clockNote: l.clock,
			},
		},
		Spec: spec{Holder: holderOf(data)},
	}
	if l.election {
		var mine bool
		if o.Spec, mine = specFor(data); mine {
			o.Metadata.Annotations[specNote] = o.Spec.mark()
		}
		if version != "" {
			l.others.keepIn(&o)
		}
	}
	body, err := json.Marshal(o)
	if err != nil {
		return err
	}
	q := overhttp.Request{Method: http.MethodPut, Path: "leases/" + o.Metadata.Name, Body: body, Header: map[string]string{"Content-Type": "application/json"}}
	if version == "" {
		q.Method, q.Path = http.MethodPost, "leases"
	}
	r, err := l.Do(ctx, q)
	switch {
	case err != nil:
		return err
	case r.Status == http.StatusConflict, isMissing(r) && version != "":
		return register.ErrChanged
	case r.Err() != nil:
		return r.Err()
	}
	o = lease{}
	if json.Unmarshal(r.Body, &o) != nil || o.Metadata.ResourceVersion == "" { // of a proxy that answers in its place
		return fmt.Errorf("%w: the reply of the server is no Lease", driver.ErrUncertain)
	}
	return nil
}

// Names lists the names of the objects that padlock has made.
func (l *leases) Names(ctx context.Context, prefix string) (names []string, err error) {
	r, err := l.Read(ctx, overhttp.Request{Path: "leases", Query: url.Values{"labelSelector": {managedBy + "=padlock"}}})
	if err != nil {
		return nil, err
	}
	var list struct {
		Kind     string
		Metadata struct{ Continue string }
		Items    []lease
	}
	if err := errors.Join(r.Err(), json.Unmarshal(r.Body, &list)); err != nil {
		return nil, err
	}
	if list.Kind != "LeaseList" || list.Metadata.Continue != "" { // it may lack objects
		return nil, fmt.Errorf("%w: the reply of the server is no whole list of Leases", driver.ErrUnavailable)
	}
	for _, o := range list.Items {
		notes := o.Metadata.Annotations
		name, err := base64.StdEncoding.DecodeString(notes[nameNote])
		if err == nil && notes[prefixNote] == l.prefix && strings.HasPrefix(string(name), prefix) {
			names = append(names, string(name))
		}
	}
	return names, nil
}

// Watch waits until the server reports a change of the object, or ends the watch.
func (l *leases) Watch(ctx context.Context, name, version string) error {
	version, _, _ = strings.Cut(version, "/")
	gone, err := l.watch(ctx, name, version, version)
	if gone {
		_, err = l.watch(ctx, name, version, "")
	}
	return err
}

// watch waits for an event about another version of the object than the given one. The events begin
// behind the version from; without it, the first one shows the object as it is. gone means that the
// server does not know any more what has happened since from.
func (l *leases) watch(ctx context.Context, name, version, from string) (gone bool, err error) {
	query := url.Values{"watch": {"1"}, "fieldSelector": {"metadata.name=" + l.object(name)}, "timeoutSeconds": {"240"}}
	if from != "" {
		query.Set("resourceVersion", from)
	}
	r, err := l.Stream(ctx, overhttp.Request{Path: "leases", Query: query})
	if err != nil {
		return false, err
	}
	defer r.Body.Close()
	switch r.StatusCode {
	case http.StatusOK:
	case http.StatusGone:
		return true, nil
	default:
		return false, fmt.Errorf("the server answers %s to a watch", r.Status)
	}
	for events := json.NewDecoder(r.Body); ; {
		var e struct {
			Type   string
			Object struct {
				Code     int // of an ERROR
				Metadata metadata
			}
		}
		switch err := events.Decode(&e); {
		case err == io.EOF:
			return false, nil
		case err != nil:
			return false, err
		case e.Type == "ERROR":
			return e.Object.Code == http.StatusGone, nil
		case e.Type == "DELETED", e.Object.Metadata.ResourceVersion != version:
			return false, nil
		}
	}
}
