package dynamostore_test

import (
	"net/http"
	"testing"

	"github.com/padlock-go/padlock/internal/awskeys"
	"github.com/padlock-go/padlock/storekit/register"
	"github.com/padlock-go/padlock/stores/dynamostore"
)

var withRole = awskeys.Service{
	Open: func(t *testing.T, transport http.RoundTripper) (awskeys.Store, error) {
		return dynamostore.Open(t.Context(), dynamostore.Config{Table: "locks", Endpoint: "http://memory", Transport: transport}, register.Lazy())
	},
	Free:    awskeys.Answer{Status: 200, Body: "{}"},
	Expired: awskeys.Answer{Status: 400, Body: `{"__type":"com.amazon.coral.service#ExpiredTokenException","message":"The security token included in the request is expired"}`},
}

func TestAWSKeysAreKept(t *testing.T) { awskeys.Kept(t, withRole) }

func TestKeyIsRefused(t *testing.T) { awskeys.Refused(t, withRole) }
