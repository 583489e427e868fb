//go:build dynalite

package dynamostore_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/drivertest"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/storekit/aws"
	"github.com/padlock-go/padlock/storekit/storeurl"
	"github.com/padlock-go/padlock/stores/dynamostore"
)

// The store passes the suite on dynalite, which padlock has not written. It checks the expressions
// of requests, but does not know ReturnValuesOnConditionCheckFailure. In Symfony's table it carries
// out PHP's statements, too. See make test-dynalite.
func TestDynalite(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "test")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "test")
	t.Setenv("AWS_DEFAULT_REGION", "eu-west-1")
	for _, place := range []string{"padlock-test/" + t.Name() + "?skew=0s", "locks-table?layout=symfony&skew=0s"} {
		t.Run(place, func(t *testing.T) { onDynalite(t, place) })
	}
}

func onDynalite(t *testing.T, place string) {
	endpoint := os.Getenv("DYNALITE")
	u, err := url.Parse("dynamodb://" + place + "&endpoint=" + endpoint)
	if err != nil {
		t.Fatal(err)
	}
	scheme := dynamostore.Scheme()
	makeTable(t, endpoint, u)
	server.Eventually(t, func() error { // dynalite needs a while
		store, err := scheme.Open(t.Context(), u, storeurl.Opening{})
		if err == nil {
			err = store.Close()
		}
		return err
	})
	h := drivertest.Harness{
		Slow: true,
		Open: func(ctx context.Context) (driver.Store, error) {
			ctx, cancel := context.WithTimeout(ctx, time.Minute)
			defer cancel()
			return scheme.Open(ctx, u, storeurl.Opening{})
		},
	}
	if u.Query().Get("layout") == "symfony" {
		there, err := url.Parse(endpoint)
		if err != nil {
			t.Fatal(err)
		}
		h.Foreign = foreign(t, httputil.NewSingleHostReverseProxy(there))
	}
	drivertest.Run(t, h)
}

// makeTable makes the table as the first command of padlock schema does.
func makeTable(t *testing.T, endpoint string, u *url.URL) {
	t.Helper()
	key := "key"
	if u.Query().Get("layout") == "symfony" {
		key = "key_id"
	}
	body := fmt.Appendf(nil, `{"TableName":%q,"BillingMode":"PAY_PER_REQUEST",
		"AttributeDefinitions":[{"AttributeName":%q,"AttributeType":"S"}],"KeySchema":[{"AttributeName":%q,"KeyType":"HASH"}]}`, u.Host, key, key)
	q, err := http.NewRequestWithContext(t.Context(), http.MethodPost, endpoint, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	q.Header.Set("X-Amz-Target", "DynamoDB_20120810.CreateTable")
	q.Header.Set("Content-Type", "application/x-amz-json-1.0")
	aws.Sign(q, body, aws.NewKey("test", "test", ""), "eu-west-1", "dynamodb")
	r, err := http.DefaultClient.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	if said, _ := io.ReadAll(r.Body); r.StatusCode != http.StatusOK {
		t.Fatalf("CreateTable: %s: %s", r.Status, said)
	}
}
