// Package fakes has services of clouds in memory, for tests. Each is a http.Handler, and knows as
// much of its service as the stores of padlock use.
package fakes

import (
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
)

// An Attribute is a value of DynamoDB: {"S": "…"}.
type Attribute = map[string]string

// DynamoDB is as much of the service as dynamostore uses, with one table. Like DynamoDB, it refuses
// an expression that it does not know. Mu guards
// the fields.
type DynamoDB struct {
	Mu    sync.Mutex
	Made  bool // there is a table
	TTL   bool // the table deletes items by the attribute expires, as the service says
	Late  int  // how often the service says that it does not know the new table
	Fails int  // how often UpdateTimeToLive fails
	Page  int  // the items of one page of a Scan; 0 means all
	Items map[string]map[string]Attribute

	table string
}

// NewDynamoDB returns a service with an empty table.
func NewDynamoDB(table string) *DynamoDB {
	return &DynamoDB{Made: true, Items: map[string]map[string]Attribute{}, table: table}
}

type query struct {
	TableName                           string
	Key, Item, ExclusiveStartKey        map[string]Attribute
	ConditionExpression                 string
	FilterExpression                    string
	ExpressionAttributeNames            map[string]string
	ExpressionAttributeValues           map[string]Attribute
	ReturnValuesOnConditionCheckFailure string
	ConsistentRead                      bool
}

// ServeHTTP carries out an operation.
func (f *DynamoDB) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.Mu.Lock()
	defer f.Mu.Unlock()
	var q query
	body, _ := io.ReadAll(r.Body)
	if err := json.Unmarshal(body, &q); err != nil || q.TableName != f.table {
		refuse(w, "ValidationException", nil)
		return
	}
	target := r.Header.Get("X-Amz-Target")
	if target != "DynamoDB_20120810.CreateTable" && !f.Made {
		refuse(w, "ResourceNotFoundException", nil)
		return
	}
	switch strings.TrimPrefix(target, "DynamoDB_20120810.") {
	case "GetItem":
		reply(w, map[string]any{"Item": f.Items[q.Key["key"]["S"]]})
	case "PutItem":
		f.put(w, &q)
	case "Scan":
		f.scan(w, &q)
	case "CreateTable":
		if f.Made {
			refuse(w, "ResourceInUseException", nil)
			return
		}
		f.Made = true
		reply(w, map[string]any{})
	case "DescribeTable":
		if f.Late > 0 {
			f.Late--
			refuse(w, "ResourceNotFoundException", nil)
			return
		}
		reply(w, map[string]any{"Table": map[string]string{"TableStatus": "ACTIVE"}})
	case "UpdateTimeToLive":
		if f.TTL || f.Fails > 0 {
			f.Fails--
			refuse(w, "ValidationException", nil)
			return
		}
		f.TTL = true
		reply(w, map[string]any{})
	case "DescribeTimeToLive":
		status := map[bool]string{true: "ENABLED", false: "DISABLED"}[f.TTL]
		reply(w, map[string]any{"TimeToLiveDescription": Attribute{"AttributeName": "expires", "TimeToLiveStatus": status}})
	default:
		refuse(w, "UnknownOperationException", nil)
	}
}

func (f *DynamoDB) put(w http.ResponseWriter, q *query) {
	key := q.Item["key"]["S"]
	old, exists := f.Items[key]
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
		f.Items[key] = q.Item
		reply(w, map[string]any{})
	}
}

func (f *DynamoDB) scan(w http.ResponseWriter, q *query) {
	if q.FilterExpression != "" && (q.FilterExpression != "begins_with(#key, :prefix)" || q.ExpressionAttributeNames["#key"] != "key") {
		refuse(w, "ValidationException", nil)
		return
	}
	var found []map[string]Attribute
	last := map[string]Attribute(nil)
	for n, key := range slices.Sorted(maps.Keys(f.Items)) {
		if start := q.ExclusiveStartKey["key"]["S"]; key <= start {
			continue
		} else if strings.HasPrefix(key, q.ExpressionAttributeValues[":prefix"]["S"]) {
			found = append(found, f.Items[key])
		}
		if f.Page > 0 && (n+1)%f.Page == 0 {
			last = map[string]Attribute{"key": {"S": key}}
			break
		}
	}
	reply(w, map[string]any{"Items": found, "LastEvaluatedKey": last})
}

func reply(w http.ResponseWriter, body any) { json.NewEncoder(w).Encode(body) }

func refuse(w http.ResponseWriter, kind string, old map[string]Attribute) {
	w.WriteHeader(http.StatusBadRequest)
	reply(w, map[string]any{"__type": "com.amazonaws.dynamodb.v20120810#" + kind, "message": "as the fake says", "Item": old})
}
