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
	prefix  string
	service Service
}

// versionOf returns the version of the object that a GET has read or a PUT has written, or "".
func (b *bucket) versionOf(r *overhttp.Reply) string {
	if b.service == ServiceGoogle {
		return r.Header.Get("X-Goog-Generation")
	}
	return r.Header.Get("ETag")
}

// onlyIf returns the headers of a PUT that is carried out only if the object has the version.
// Without no-store, caches may keep replies about a public object of Google.
func (b *bucket) onlyIf(version string) map[string]string {
	if b.service != ServiceGoogle {
		return overhttp.IfMatch(version)
	}
	if version == "" {
		version = "0" // there is no object
	}
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
	case absent(r):
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
	case r.Status == http.StatusOK && b.versionOf(r) != "" && len(r.Body) == 0:
		return nil
	case r.Status < 300: // a page has a body, and may have an ETag
		return fmt.Errorf("%w: %s", driver.ErrUncertain, foreign(r))
	case r.Status == http.StatusPreconditionFailed:
		return register.ErrChanged
	case r.Status == http.StatusConflict && (code == "ConditionalRequestConflict" || code == "OperationAborted"):
		return register.ErrChanged // another write is under way; this one was not carried out
	case absent(r):
		return register.ErrChanged // somebody has deleted the object
	}
	return refused(r)
}

// absent reports whether there is no object. Other replies have the same status if there is no
// bucket.
func absent(r *overhttp.Reply) bool {
	return r.Status == http.StatusNotFound && codeOf(r) == "NoSuchKey"
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
			XMLName               xml.Name
			Contents              []struct{ Key string }
			IsTruncated           bool
			NextContinuationToken string
		}
		if r.Status != http.StatusOK {
			return nil, refused(r)
		}
		if err := xml.Unmarshal(r.Body, &page); err != nil || page.XMLName.Local != "ListBucketResult" {
			return nil, fmt.Errorf("%w: the list cannot be read: %s", driver.ErrUnavailable, foreign(r))
		}
		for _, c := range page.Contents {
			keys = append(keys, c.Key)
		}
		if !page.IsTruncated {
			return keys, nil
		}
		if page.NextContinuationToken == "" {
			return nil, fmt.Errorf("%w: the service cuts its list, and does not say where to go on", driver.ErrUnavailable)
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

// foreign says that a reply with the status of a success is not one of the service, but of a proxy
// or a portal that answers in its place.
func foreign(r *overhttp.Reply) string {
	return fmt.Sprintf("the reply %d is none of object storage: look for a proxy before the service: %.100q", r.Status, r.Body)
}

// refused returns the error for a reply that is none of the expected ones.
func refused(r *overhttp.Reply) error {
	if r.Status < 300 { // it does not say that there is no object
		return fmt.Errorf("%w: %s", driver.ErrUnavailable, foreign(r))
	}
	if region := r.Header.Get("X-Amz-Bucket-Region"); region != "" && (r.Status == 301 || r.Status == 307 || codeOf(r) == "AuthorizationHeaderMalformed") {
		return fmt.Errorf("%w: the bucket is in the region %s: write region=%[2]s", driver.ErrUnavailable, region)
	}
	return r.Err()
}
