// Package fakes has services of clouds in memory, for tests. Each is a http.Handler, and knows as
// much of its service as the stores of padlock use.
package fakes

import (
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// An Attribute is a value of DynamoDB: {"S": "…"}.
type Attribute = map[string]string

// DynamoDB is as much of the service as dynamostore and PHP's Symfony use, with one table. It
// refuses an expression that it does not know, as DynamoDB refuses a wrong one. Mu guards the
// fields.
type DynamoDB struct {
	Mu    sync.Mutex
	Made  bool   // there is a table
	Page  int    // the items of one page of a Scan; 0 means all
	Key   string // the partition key of the table: key, or key_id as in Symfony's table
	Items map[string]map[string]Attribute

	table string
}

// NewDynamoDB returns a service with an empty table.
func NewDynamoDB(table string) *DynamoDB {
	return &DynamoDB{Made: true, Key: "key", Items: map[string]map[string]Attribute{}, table: table}
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
	if !f.Made {
		refuse(w, "ResourceNotFoundException", nil)
		return
	}
	switch strings.TrimPrefix(r.Header.Get("X-Amz-Target"), "DynamoDB_20120810.") {
	case "GetItem":
		reply(w, map[string]any{"Item": f.Items[q.Key[f.Key]["S"]]})
	case "PutItem":
		f.put(w, &q)
	case "DeleteItem":
		f.delete(w, &q)
	case "Scan":
		f.scan(w, &q)
	default:
		refuse(w, "UnknownOperationException", nil)
	}
}

func (f *DynamoDB) put(w http.ResponseWriter, q *query) {
	key := q.Item[f.Key]["S"]
	_, sound := q.ExpressionAttributeNames["#version"]
	sound = sound && q.Item["version"]["S"] != "" && (q.Item["expires"]["N"] == "") == strings.HasSuffix(key, "/%padlock")
	if f.Key == "key_id" {
		_, bad := seconds(q.Item["key_expiration"])
		sound = bad == nil && q.Item["key_token"]["S"] != ""
	}
	if key == "" || !sound || size(q.Item) > maxItem {
		refuse(w, "ValidationException", nil)
		return
	}
	if f.allowed(w, q, key) {
		f.Items[key] = q.Item
		reply(w, map[string]any{})
	}
}

func (f *DynamoDB) delete(w http.ResponseWriter, q *query) {
	key := q.Key[f.Key]["S"]
	always := q.ConditionExpression == "" && len(q.ExpressionAttributeNames)+len(q.ExpressionAttributeValues) == 0
	if always || f.allowed(w, q, key) {
		delete(f.Items, key)
		reply(w, map[string]any{})
	}
}

// maxItem is the length of the longest item in bytes, names of attributes included.
const maxItem = 400 << 10

func size(item map[string]Attribute) (n int) {
	for name, a := range item {
		n += len(name) + len(a["S"]) + len(a["N"])
	}
	return n
}

// allowed reports whether the condition of a request is met, and answers if it is not.
func (f *DynamoDB) allowed(w http.ResponseWriter, q *query, key string) bool {
	old, exists := f.Items[key]
	met, err := q.met(old, exists)
	switch {
	case err != nil:
		refuse(w, "ValidationException", nil)
	case met:
		return true
	case q.ReturnValuesOnConditionCheckFailure == "ALL_OLD":
		refuse(w, "ConditionalCheckFailedException", old)
	default:
		refuse(w, "ConditionalCheckFailedException", nil)
	}
	return false
}

// met reports whether the condition is met by the item as it is.
func (q *query) met(old map[string]Attribute, exists bool) (bool, error) {
	names, values := q.ExpressionAttributeNames, q.ExpressionAttributeValues
	condition := q.ConditionExpression
	for short, name := range names {
		if !strings.Contains(condition, short) {
			return false, errors.New("an attribute name that is not used")
		}
		condition = strings.ReplaceAll(condition, short, name)
	}
	_, written := old["version"]
	token := exists && old["key_token"]["S"] == values[":token"]["S"]
	end, _ := seconds(old["key_expiration"])
	now, bad := seconds(values[":now"])
	switch condition {
	case "attribute_not_exists(version)":
		return !written, nil
	case "attribute_not_exists(key_id)":
		return !exists, nil
	case "version = :version":
		return written && old["version"]["S"] == values[":version"]["S"], nil
	case "attribute_not_exists(version) AND key_token = :token AND key_expiration = :expires_at":
		seen, err := seconds(values[":expires_at"])
		return !written && token && end == seen, err
	// The next ones are Symfony's.
	case "attribute_not_exists(key_id) OR key_expiration < :now":
		return !exists || end < now, bad
	case "attribute_exists(key_id) AND (key_token = :token OR key_expiration <= :now)":
		return exists && (token || end <= now), bad
	case "key_token = :token":
		return token, nil
	}
	return false, errors.New("an unknown condition")
}

// seconds reads a number.
func seconds(a Attribute) (float64, error) { return strconv.ParseFloat(a["N"], 64) }

func (f *DynamoDB) scan(w http.ResponseWriter, q *query) {
	if q.FilterExpression != "" && (q.FilterExpression != "begins_with(#key, :prefix)" || q.ExpressionAttributeNames["#key"] != "key") {
		refuse(w, "ValidationException", nil)
		return
	}
	found := []map[string]Attribute{} // never null, as at the service
	last := map[string]Attribute(nil)
	for n, key := range slices.Sorted(maps.Keys(f.Items)) {
		if start := q.ExclusiveStartKey[f.Key]["S"]; key <= start {
			continue
		} else if strings.HasPrefix(key, q.ExpressionAttributeValues[":prefix"]["S"]) {
			found = append(found, f.Items[key])
		}
		if f.Page > 0 && (n+1)%f.Page == 0 {
			last = map[string]Attribute{f.Key: {"S": key}}
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
