package dynamostore_test

import (
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/padlock-go/padlock/storekit/overhttp/overhttptest"
	"github.com/padlock-go/padlock/storekit/register"
	"github.com/padlock-go/padlock/stores/dynamostore"
)

type text = map[string]string // an attribute: {"S": "…"}

// fake is as much of DynamoDB as the store uses. Like DynamoDB, it refuses an expression that it
// does not know.
type fake struct {
	mu    sync.Mutex
	made  bool
	ttl   bool
	late  int // how often the service says that it does not know the new table
	fails int // how often UpdateTimeToLive fails
	items map[string]map[string]text
	page  int // the items of one page of a Scan; 0 means all
}

func newFake() *fake { return &fake{made: true, items: map[string]map[string]text{}} }

type query struct {
	TableName                           string
	Key, Item, ExclusiveStartKey        map[string]text
	ConditionExpression                 string
	FilterExpression                    string
	ExpressionAttributeNames            map[string]string
	ExpressionAttributeValues           map[string]text
	ReturnValuesOnConditionCheckFailure string
	ConsistentRead                      bool
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var q query
	body, _ := io.ReadAll(r.Body)
	if err := json.Unmarshal(body, &q); err != nil || q.TableName != "locks-table" {
		refuse(w, "ValidationException", nil)
		return
	}
	target := r.Header.Get("X-Amz-Target")
	if target != "DynamoDB_20120810.CreateTable" && !f.made {
		refuse(w, "ResourceNotFoundException", nil)
		return
	}
	switch strings.TrimPrefix(target, "DynamoDB_20120810.") {
	case "GetItem":
		reply(w, map[string]any{"Item": f.items[q.Key["key"]["S"]]})
	case "PutItem":
		f.put(w, &q)
	case "Scan":
		f.scan(w, &q)
	case "CreateTable":
		if f.made {
			refuse(w, "ResourceInUseException", nil)
			return
		}
		f.made = true
		reply(w, map[string]any{})
	case "DescribeTable":
		if f.late > 0 {
			f.late--
			refuse(w, "ResourceNotFoundException", nil)
			return
		}
		reply(w, map[string]any{"Table": map[string]string{"TableStatus": "ACTIVE"}})
	case "UpdateTimeToLive":
		if f.ttl || f.fails > 0 {
			f.fails--
			refuse(w, "ValidationException", nil)
			return
		}
		f.ttl = true
		reply(w, map[string]any{})
	case "DescribeTimeToLive":
		status := map[bool]string{true: "ENABLED", false: "DISABLED"}[f.ttl]
		reply(w, map[string]any{"TimeToLiveDescription": text{"AttributeName": "expires", "TimeToLiveStatus": status}})
	default:
		refuse(w, "UnknownOperationException", nil)
	}
}

func (f *fake) put(w http.ResponseWriter, q *query) {
	key := q.Item["key"]["S"]
	old, exists := f.items[key]
	name := q.ExpressionAttributeNames["#version"]
	met := false
	switch q.ConditionExpression {
	case "attribute_not_exists(#version)":
		met = !exists
	case "#version = :version":
		met = exists && old[name]["S"] == q.ExpressionAttributeValues[":version"]["S"]
	default:
		name = ""
	}
	switch {
	case name != "version" || key == "" || q.Item["version"]["S"] == "" || (q.Item["expires"]["N"] == "") != strings.HasSuffix(key, "/%padlock"):
		refuse(w, "ValidationException", nil)
	case !met && q.ReturnValuesOnConditionCheckFailure == "ALL_OLD":
		refuse(w, "ConditionalCheckFailedException", old)
	case !met:
		refuse(w, "ConditionalCheckFailedException", nil)
	default:
		f.items[key] = q.Item
		reply(w, map[string]any{})
	}
}

func (f *fake) scan(w http.ResponseWriter, q *query) {
	if q.FilterExpression != "" && (q.FilterExpression != "begins_with(#key, :prefix)" || q.ExpressionAttributeNames["#key"] != "key") {
		refuse(w, "ValidationException", nil)
		return
	}
	var found []map[string]text
	last := map[string]text(nil)
	for n, key := range slices.Sorted(maps.Keys(f.items)) {
		if start := q.ExclusiveStartKey["key"]["S"]; key <= start {
			continue
		} else if strings.HasPrefix(key, q.ExpressionAttributeValues[":prefix"]["S"]) {
			found = append(found, f.items[key])
		}
		if f.page > 0 && (n+1)%f.page == 0 {
			last = map[string]text{"key": {"S": key}}
			break
		}
	}
	reply(w, map[string]any{"Items": found, "LastEvaluatedKey": last})
}

func reply(w http.ResponseWriter, body any) { json.NewEncoder(w).Encode(body) }

func refuse(w http.ResponseWriter, kind string, old map[string]text) {
	w.WriteHeader(http.StatusBadRequest)
	reply(w, map[string]any{"__type": "com.amazonaws.dynamodb.v20120810#" + kind, "message": "as the fake says", "Item": old})
}

// failure is the body of an error.
func failure(kind string) string {
	return `{"__type":"com.amazonaws.dynamodb.v20120810#` + kind + `","message":"as the test says"}`
}

// start starts a fake behind front ends whose clocks differ by the skew.
func start(f *fake) *overhttptest.Service {
	s := overhttptest.Start(f)
	s.Skew = dynamostore.DefaultSkew
	s.Kind = func(r *http.Request) string {
		return strings.TrimPrefix(r.Header.Get("X-Amz-Target"), "DynamoDB_20120810.")
	}
	return s
}

// inMemory runs a test over a fake, in time that costs nothing.
func inMemory(t *testing.T, test func(t *testing.T, f *fake, s *overhttptest.Service)) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
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
func serve(t *testing.T, f *fake) (rawURL string) {
	t.Helper()
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	return server.URL
}
