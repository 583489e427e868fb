package main

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/replay"
	"github.com/padlock-go/padlock/internal/server/fakes"
	"github.com/padlock-go/padlock/lab/certificate"
	"github.com/padlock-go/padlock/stores/dynamostore"
	"github.com/padlock-go/padlock/stores/leasestore"
	"github.com/padlock-go/padlock/stores/s3store"
)

// A conversation has no secret and no name of the place, and can be played to the store again.
func TestConversation(t *testing.T) {
	for url, service := range map[string]http.Handler{
		"s3://private-bucket-of-2026/locks?skew=0s&region=us-east-1": &fakes.S3{Bucket: "private-bucket-of-2026"},
		"s3://locks/locks?region=us-east-1":                          &fakes.S3{Bucket: "locks"},
		"dynamodb://private-table-of-2026/locks?region=us-east-1":    fakes.NewDynamoDB("private-table-of-2026"),
		"dynamodb://padlock/padlock?region=us-east-1":                fakes.NewDynamoDB("padlock"),
		"kubernetes://shop/locks?":                                   fakes.NewKubernetes(),
	} {
		c, recorded := conversation(t, url, service)
		if q := c.paper.Questions[0]; q.Verdict != certificate.Held || q.Counts["requests"] < 35 {
			t.Errorf("%+v", q)
		}
		for _, private := range []string{"AKID", "private-key", "private-session", "of-2026", "Authorization", "Signature", "127.0.0.1", "shop"} {
			if bytes.Contains(recorded, []byte(private)) {
				t.Errorf("%q stands in the recording of %s", private, url)
			}
		}
		if err := replay.Play(t.Context(), recorded, played); err != nil {
			t.Error(url, err)
		}
	}
}

// played opens a store whose service is a recording.
func played(ctx context.Context, at *url.URL, transport http.RoundTripper) (driver.Store, error) {
	endpoint := at.Query().Get("endpoint")
	switch at.Scheme {
	case "s3":
		return s3store.Open(ctx, s3store.Config{Bucket: at.Host, Prefix: at.Path[1:], Region: "us-east-1", Endpoint: endpoint, Transport: transport})
	case "dynamodb":
		return dynamostore.Open(ctx, dynamostore.Config{Table: at.Host, Prefix: at.Path[1:], Region: "us-east-1", Endpoint: endpoint, Transport: transport})
	}
	return leasestore.Open(ctx, leasestore.Config{Namespace: at.Host, Prefix: at.Path[1:], Endpoint: endpoint, Transport: transport})
}

// A service that answers something else is broken, and its conversation is not kept.
func TestConversationOfBrokenService(t *testing.T) {
	storage := &fakes.S3{Bucket: "soak"}
	c, recorded := conversation(t, "s3://soak/locks?", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !r.URL.Query().Has("list-type") { // a list gets an empty reply
			storage.ServeHTTP(w, r)
		}
	}))
	if q := c.paper.Questions[0]; q.Verdict != certificate.Broke || recorded != nil {
		t.Errorf("%+v, %d bytes", q, len(recorded))
	}
}

// What cannot be played is not recorded, and the certificate says why.
func TestNoConversation(t *testing.T) {
	for _, url := range []string{"file:///nowhere?", "redis://127.0.0.1?", "kubernetes:///?", "dynamodb://locks/?layout=symfony"} {
		c, recorded := conversation(t, url, http.NotFoundHandler())
		if q := c.paper.Questions[0]; q.Verdict != certificate.NotAsked || q.Why == "" || recorded != nil {
			t.Errorf("%s: %+v", url, q)
		}
	}
}

// conversation lets padlock-verify talk to a service, and returns what it has recorded, or nil.
func conversation(t *testing.T, url string, service http.Handler) (c *certification, recorded []byte) {
	for name, value := range map[string]string{"AWS_ACCESS_KEY_ID": "AKIDPRIVATE", "AWS_SECRET_ACCESS_KEY": "private-key", "AWS_SESSION_TOKEN": "private-session"} {
		t.Setenv(name, value)
	}
	srv := httptest.NewServer(service)
	t.Cleanup(func() { srv.CloseClientConnections(); srv.Close() })
	v := &verification{url: url + "&endpoint=" + srv.URL, base: "padlock-verify-abc", span: time.Minute, file: filepath.Join(t.TempDir(), "service.json")}
	c = newCertification(v, t.Context())
	if err := c.converse(t.Context()); err != nil {
		t.Fatal(err)
	}
	recorded, _ = os.ReadFile(certificate.Conversation(c.file)) // there may be none
	return c, recorded
}
