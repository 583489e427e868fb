package s3store

import (
	"context"
	"encoding/xml"
	"fmt"
	"net/http"
	"net/url"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit/overhttp"
	"github.com/padlock-go/padlock/storekit/register"
)

// A bucket is a register: each value is an object. Its version is the object's ETag, or at Google
// the object's generation.
type bucket struct {
	*overhttp.Client
	prefix string
	google bool
}

// versionOf returns the version of an object that a GET has read.
func (b *bucket) versionOf(r *overhttp.Reply) string {
	if b.google {
		return r.Header.Get("X-Goog-Generation")
	}
	return r.Header.Get("ETag")
}

// onlyIf returns the header of a PUT that is carried out only if the object has the version.
func (b *bucket) onlyIf(version string) map[string]string {
	if !b.google {
		return overhttp.IfMatch(version)
	}
	if version == "" {
		version = "0" // there is no object
	}
	// Google keeps replies about a public object in caches, unless the object forbids it.
	return map[string]string{"X-Goog-If-Generation-Match": version, "Cache-Control": "no-store"}
}

// Get reads an object, and the Date of the reply.
func (b *bucket) Get(ctx context.Context, key string) (v register.Value, err error) {
	r, err := b.Read(ctx, overhttp.Request{Path: key})
	if err != nil {
		return v, err
	}
	if v.Now, err = r.Date(); err != nil {
		return v, err
	}
	switch version := b.versionOf(r); {
	case r.Status == http.StatusNotFound && codeOf(r) == "NoSuchKey":
		return v, nil
	case r.Status == http.StatusOK && version != "":
		v.Data, v.Version = r.Body, version
		return v, nil
	}
	return v, refused(r)
}

// Put writes an object if it still has the version. A reply that leaves open what has happened,
// such as 503, is an unknown outcome.
func (b *bucket) Put(ctx context.Context, key string, data []byte, version string) error {
	r, err := b.Do(ctx, overhttp.Request{Method: http.MethodPut, Path: key, Header: b.onlyIf(version), Body: data})
	if err != nil {
		return err
	}
	switch code := codeOf(r); {
	case r.Status == http.StatusOK:
		return nil
	case r.Status == http.StatusPreconditionFailed:
		return register.ErrChanged
	case r.Status == http.StatusConflict && (code == "ConditionalRequestConflict" || code == "OperationAborted"):
		return register.ErrChanged // another write is under way; this one was not carried out
	case r.Status == http.StatusNotFound && code == "NoSuchKey":
		return register.ErrChanged // somebody has deleted the object
	}
	return refused(r)
}

// Names lists the objects whose keys begin with prefix.
func (b *bucket) Names(ctx context.Context, prefix string) (keys []string, err error) {
	query := url.Values{"list-type": {"2"}, "prefix": {prefix}}
	for {
		r, err := b.Read(ctx, overhttp.Request{Query: query})
		if err != nil {
			return nil, err
		}
		var page struct {
			Contents              []struct{ Key string }
			IsTruncated           bool
			NextContinuationToken string
		}
		if r.Status != http.StatusOK {
			return nil, refused(r)
		}
		if err := xml.Unmarshal(r.Body, &page); err != nil {
			return nil, fmt.Errorf("%w: the list cannot be read: %w", driver.ErrUnavailable, err)
		}
		for _, c := range page.Contents {
			keys = append(keys, c.Key)
		}
		if !page.IsTruncated {
			return keys, nil
		}
		query.Set("continuation-token", page.NextContinuationToken)
	}
}

// codeOf returns the code of an error, such as NoSuchKey, or "".
func codeOf(r *overhttp.Reply) string {
	var e struct{ Code string }
	if r.Status >= 300 {
		_ = xml.Unmarshal(r.Body, &e) // a reply need not have a code
	}
	return e.Code
}

// refused returns the error for a reply that is none of the expected ones.
func refused(r *overhttp.Reply) error {
	if region := r.Header.Get("X-Amz-Bucket-Region"); r.Status == 301 || r.Status == 307 || codeOf(r) == "AuthorizationHeaderMalformed" && region != "" {
		return fmt.Errorf("%w: the bucket is in the region %s: write region=%[2]s", driver.ErrUnavailable, region)
	}
	return r.Err()
}
