package s3store_test

import (
	"net/http"
	"testing"

	"github.com/padlock-go/padlock/internal/awskeys"
	"github.com/padlock-go/padlock/storekit/register"
	"github.com/padlock-go/padlock/stores/s3store"
)

var withRole = awskeys.Service{
	Open: func(t *testing.T, transport http.RoundTripper) (awskeys.Store, error) {
		return s3store.Open(t.Context(), s3store.Config{Bucket: "shop", Endpoint: "http://memory", Transport: transport}, register.Lazy())
	},
	Free:    awskeys.Answer{Status: 404, Body: "<Error><Code>NoSuchKey</Code></Error>"},
	Expired: awskeys.Answer{Status: 400, Body: "<Error><Code>ExpiredToken</Code><Message>The provided token has expired.</Message></Error>"},
}

func TestAWSKeysAreKept(t *testing.T) { awskeys.Kept(t, withRole) }

func TestKeyIsRefused(t *testing.T) { awskeys.Refused(t, withRole) }
