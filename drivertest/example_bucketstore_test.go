package drivertest_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit"
	"github.com/padlock-go/padlock/storekit/overhttp"
	"github.com/padlock-go/padlock/storekit/register"
	"github.com/padlock-go/padlock/storekit/storeurl"
)

// This file is a whole store over a service with conditional writes, as a module of yours would
// have it. The service is the fake object storage of example_register_test.go.

func bucketScheme() storeurl.Scheme { return bucketKind.Scheme() }

var bucketKind = register.Kind{
	Options: register.Options{
		Name:            "bucket",
		Clock:           register.Clock{Grain: time.Millisecond}, // of the header Now; the Date of most services has time.Second, and a Skew
		Keys:            &storekit.ObjectKeys,
		MaxKey:          1024,
		NoVersion:       `"0"`,
		SurvivesRestart: driver.PromiseYes,
		Notes:           []string{"This store is an example."},
	},
	Help:    "a bucket of the fake object storage",
	Example: "bucket://shop/locks?endpoint=http://localhost:9000",
	Login:   "the fake knows no passwords",
	Type:    bucket{},
	Connect: func(t *register.Target) (register.Register, error) {
		return bucket{overhttp.New(t.Endpoint.JoinPath(t.URL.Host, "/"), nil)}, nil
	},
}

// A bucket is a register: each value is an object, and its version is the object's ETag.
type bucket struct{ *overhttp.Client }

func (b bucket) Get(ctx context.Context, key string) (v register.Value, err error) {
	r, err := b.Read(ctx, overhttp.Request{Path: key})
	if err != nil {
		return v, err
	}
	v.Now, err = time.Parse(milliseconds, r.Header.Get("Now"))
	if err != nil || r.Status == http.StatusNotFound {
		return v, err
	}
	v.Data, v.Version = r.Body, r.Header.Get("ETag")
	return v, r.Err()
}

func (b bucket) Put(ctx context.Context, key string, data []byte, version string) error {
	r, err := b.Do(ctx, overhttp.Request{Method: http.MethodPut, Path: key, Header: overhttp.IfMatch(version), Body: data})
	switch {
	case err != nil:
		return err
	case r.Status == http.StatusPreconditionFailed:
		return register.ErrChanged
	}
	return r.Err()
}

func (b bucket) Names(ctx context.Context, prefix string) (keys []string, err error) {
	r, err := b.Read(ctx, overhttp.Request{Query: url.Values{"prefix": {prefix}}})
	if err != nil {
		return nil, err
	}
	return keys, errors.Join(r.Err(), json.Unmarshal(r.Body, &keys))
}
