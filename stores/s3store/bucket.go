package s3store

import (
	"context"
	"encoding/xml"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit"
	"github.com/padlock-go/padlock/storekit/register"
)

// A bucket is a register: the value of a name is an object, and its version is the object's ETag.
type bucket struct{ *client }

// objectNames makes the keys of names, after the prefix of the bucket.
var objectNames = storekit.Escaping{
	Plain:    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.",
	NotFirst: ".",
}

func (b *bucket) key(name string) string { return b.Prefix + objectNames.Escape(name) }

// Get reads an object, and the Date of the reply.
func (b *bucket) Get(ctx context.Context, name string) (register.Value, error) {
	r, err := b.read(ctx, b.key(name), nil)
	if err != nil {
		return register.Value{}, err
	}
	now, err := http.ParseTime(r.header.Get("Date"))
	if err != nil {
		return register.Value{}, fmt.Errorf("%w: the reply of the service has no Date", driver.ErrUnavailable)
	}
	switch etag := r.header.Get("ETag"); {
	case r.status == http.StatusNotFound && r.code == "NoSuchKey":
		return register.Value{Now: now}, nil
	case r.status == http.StatusOK && etag != "":
		return register.Value{Data: r.body, Version: etag, Now: now}, nil
	}
	return register.Value{}, r.refused()
}

// Put writes an object if it still has the version. A reply that leaves open what has happened,
// such as 503, is an unknown outcome.
func (b *bucket) Put(ctx context.Context, name string, data []byte, version string) error {
	return b.put(ctx, b.key(name), data, version)
}

func (b *bucket) put(ctx context.Context, key string, data []byte, version string) error {
	condition := [2]string{"If-Match", version}
	if version == "" {
		condition = [2]string{"If-None-Match", "*"}
	}
	r, err := b.send(ctx, http.MethodPut, key, nil, condition, data)
	if err != nil {
		return storekit.Failure(err)
	}
	switch {
	case r.status == http.StatusOK:
		return nil
	case r.status == http.StatusPreconditionFailed:
		return register.ErrChanged
	case r.status == http.StatusConflict && (r.code == "ConditionalRequestConflict" || r.code == "OperationAborted"):
		return register.ErrChanged // another write is under way; this one was not carried out
	case r.status == http.StatusNotFound && r.code == "NoSuchKey":
		return register.ErrChanged // somebody has deleted the object
	case r.unsure():
		return fmt.Errorf("the service answers %d %s", r.status, r.code)
	}
	return r.refused()
}

// Names lists the objects of the names that begin with prefix.
func (b *bucket) Names(ctx context.Context, prefix string) (names []string, err error) {
	query := url.Values{"list-type": {"2"}, "prefix": {b.key(prefix)}}
	for {
		r, err := b.read(ctx, "", query)
		if err != nil {
			return nil, err
		}
		var page struct {
			Contents              []struct{ Key string }
			IsTruncated           bool
			NextContinuationToken string
		}
		if r.status != http.StatusOK {
			return nil, r.refused()
		}
		if err := xml.Unmarshal(r.body, &page); err != nil {
			return nil, fmt.Errorf("%w: the list cannot be read: %w", driver.ErrUnavailable, err)
		}
		for _, c := range page.Contents {
			key, ours := strings.CutPrefix(c.Key, b.Prefix)
			if name, ok := objectNames.Unescape(key); ok && ours { // others may have objects there
				names = append(names, name)
			}
		}
		if !page.IsTruncated {
			return names, nil
		}
		query.Set("continuation-token", page.NextContinuationToken)
	}
}

// Close closes the idle connections.
func (b *bucket) Close() error {
	b.http.CloseIdleConnections()
	return nil
}

// probe is the key of an object that shows that the service refuses a write whose condition is not
// met. It is the key of no name.
const probe = ".padlock"

// checkConditions returns driver.ErrInvalid if the service writes an object although its condition
// is not met, as services do that do not know conditional writes. Any other error is
// driver.ErrUnavailable.
func (b *bucket) checkConditions(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, storekit.Patience/2)
	defer cancel()
	text := []byte("padlock checks with this object that conditional writes are refused\n")
	tries := []string{"", "", `"00000000000000000000000000000000"`} // the first one may make the object
	for n, version := range tries {
		err := b.put(limited, b.Prefix+probe, text, version)
		switch {
		case err == nil && n > 0:
			return storekit.Invalidf("the service carries out a write whose condition is not met: it cannot keep locks")
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil && err != register.ErrChanged:
			return fmt.Errorf("%w: %s", driver.ErrUnavailable, err)
		}
	}
	return nil
}

// A Store keeps locks in a bucket. It is safe for concurrent use.
type Store struct {
	*register.Store
	bucket *bucket
}

// Open opens a store. Unless the store is Lazy, Open checks with three requests that the service
// refuses a write whose condition is not met.
func Open(ctx context.Context, c Config, opts ...Option) (*Store, error) {
	cfg := config{Config: c, skew: DefaultSkew}
	for _, o := range opts {
		if o != nil {
			o(&cfg)
		}
	}
	cl, err := newClient(cfg)
	if err != nil {
		return nil, err
	}
	b := &bucket{cl}
	if !cfg.lazy {
		if err := b.checkConditions(ctx); err != nil {
			b.Close()
			return nil, err
		}
	}
	return &Store{register.New(b, cl.register()).(*register.Store), b}, nil
}
