//go:build dynalite

package dynamostore_test

import (
	"context"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/drivertest"
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
	commands, err := scheme.Schema(u)
	if err != nil {
		t.Fatal(err)
	}
	for _, command := range commands[:2] { // dynalite lets no items expire
		if out, err := exec.Command("sh", "-c", command).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", command, err, out)
		}
	}
	h := drivertest.Harness{
		Slow: true,
		Open: func(ctx context.Context) (driver.Store, error) {
			ctx, cancel := context.WithTimeout(ctx, time.Minute)
			defer cancel()
			return scheme.Open(ctx, u, storeurl.Opening{})
		},
	}
	if u.Query().Get("layout") == "symfony" {
		server, err := url.Parse(endpoint)
		if err != nil {
			t.Fatal(err)
		}
		h.Foreign = foreign(t, httputil.NewSingleHostReverseProxy(server))
	}
	drivertest.Run(t, h)
}
