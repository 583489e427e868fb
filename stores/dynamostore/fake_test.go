package dynamostore_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/padlock-go/padlock/internal/server/fakes"
	"github.com/padlock-go/padlock/storekit/overhttp/overhttptest"
	"github.com/padlock-go/padlock/storekit/register"
	"github.com/padlock-go/padlock/stores/dynamostore"
)

type text = fakes.Attribute

// failure is the body of an error.
func failure(kind string) string {
	return `{"__type":"com.amazonaws.dynamodb.v20120810#` + kind + `","message":"as the test says"}`
}

// start starts a fake behind front ends whose clocks differ by the skew.
func start(f *fakes.DynamoDB) *overhttptest.Service {
	s := overhttptest.Start(f)
	s.Skew = dynamostore.DefaultSkew
	s.Kind = func(r *http.Request) string {
		return strings.TrimPrefix(r.Header.Get("X-Amz-Target"), "DynamoDB_20120810.")
	}
	return s
}

// inMemory runs a test over a fake, in time that costs nothing.
func inMemory(t *testing.T, test func(t *testing.T, f *fakes.DynamoDB, s *overhttptest.Service)) {
	synctest.Test(t, func(t *testing.T) {
		f := fakes.NewDynamoDB("locks-table")
		s := start(f)
		defer s.Stop()
		test(t, f, s)
	})
}

func openOn(ctx context.Context, f *overhttptest.Front, opts ...register.Option) (*register.Store, error) {
	return dynamostore.Open(ctx, dynamostore.Config{
		Table: "locks-table", Prefix: "locks/", Endpoint: "http://memory", Credentials: key, Transport: f.Transport(),
	}, opts...)
}

func key(context.Context) (id, secret, session string, err error) { return "AKID", "secret", "", nil }

// serve serves a fake over TCP.
func serve(t *testing.T, f *fakes.DynamoDB) (rawURL string) {
	t.Helper()
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	return server.URL
}
