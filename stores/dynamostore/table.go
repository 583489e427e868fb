package dynamostore

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit/overhttp"
	"github.com/padlock-go/padlock/storekit/register"
)

// A table is a register: the value of a key is an item with these attributes.
//
//	key      string, the partition key
//	version  string, a random number for each write
//	record   string, the value
//	expires  seconds since 1970: DynamoDB may delete the item then, if the table has this
//	         setting; not in the record of the store
type table struct {
	*overhttp.Client
	name string
	date atomic.Int64 // the Date of the last reply, in seconds since 1970
}

// keepFor is how long an item stays after its last change. A lease or a cool-down lasts for a day
// at most. Later, the clock has passed the fence.
const keepFor = 8 * 24 * time.Hour

// ownKey ends the key of the record of the store and no other key. The record has the store's id,
// which must stay, and is hardly ever written.
const ownKey = "%padlock"

// read sends an operation that changes nothing.
func (t *table) read(ctx context.Context, name string, op any) (a answer, now time.Time, err error) {
	q, err := request(name, op)
	if err != nil {
		return a, now, err
	}
	r, err := t.Read(ctx, q)
	if err != nil {
		return a, now, err
	}
	if now, err = r.Date(); err != nil {
		return a, now, err
	}
	t.date.Store(now.Unix())
	if err := t.failure(r); err != nil {
		return answerOf(r), now, err
	}
	err = json.Unmarshal(r.Body, &a)
	if err != nil || (name == "GetItem" || name == "Scan") && !isAnswer(r.Body) || name == "Scan" && a.Items == nil { // it does not say that there is nothing
		return a, now, fmt.Errorf("%w: %s", driver.ErrUnavailable, noAnswer(name, r))
	}
	return a, now, nil
}

// failure returns the error of a reply, or nil.
func (t *table) failure(r *overhttp.Reply) error {
	if r.Status == http.StatusNotFound {
		return fmt.Errorf("%w: there is no table %s: make it with padlock schema", driver.ErrUnavailable, t.name)
	}
	return r.Err()
}

// Get reads an item, and the Date of the reply.
func (t *table) Get(ctx context.Context, key string) (register.Value, error) {
	a, now, err := t.read(ctx, "GetItem", operation{TableName: t.name, Key: item{"key": {S: key}}, ConsistentRead: true})
	if err != nil {
		return register.Value{}, err
	}
	return valueOf(a.Item, now), nil
}

// otherProgram is the version of an item that padlock has not written. Each item of padlock has a
// version. With any version, package register looks at the record, and refuses the item.
const otherProgram = "of another program"

func valueOf(it item, now time.Time) register.Value {
	v := register.Value{Data: []byte(it["record"].S), Version: it["version"].S, Now: now}
	if len(it) > 0 && v.Version == "" {
		v.Data, v.Version = nil, otherProgram
	}
	return v
}

// Put writes an item if it still has the version. A refusal has the item as it is now.
func (t *table) Put(ctx context.Context, key string, data []byte, version string) error {
	op := operation{
		TableName: t.name,
		Item: item{
			"key": {S: key}, "version": {S: rand.Text()}, "record": {S: string(data)},
		},
		ConditionExpression:      "attribute_not_exists(#version)",
		ExpressionAttributeNames: map[string]string{"#version": "version"},
	}
	if !strings.HasSuffix(key, ownKey) {
		expires := time.Unix(t.date.Load(), 0).Add(keepFor)
		op.Item["expires"] = attribute{N: strconv.FormatInt(expires.Unix(), 10)}
	}
	if version != "" {
		op.ConditionExpression = "#version = :version"
		op.ExpressionAttributeValues = item{":version": {S: version}}
	}
	return t.put(ctx, op, func(it item, now time.Time) (register.Value, error) { return valueOf(it, now), nil })
}

// put sends a PutItem with a condition. valueOf reads the item in a refusal.
func (t *table) put(ctx context.Context, op operation, valueOf func(item, time.Time) (register.Value, error)) error {
	op.ReturnValuesOnConditionCheckFailure = "ALL_OLD"
	q, err := request("PutItem", op)
	if err != nil {
		return err
	}
	r, err := t.Do(ctx, q)
	if err != nil {
		return err
	}
	if r.Status < 300 && !isAnswer(r.Body) { // it does not say that the item was written
		return fmt.Errorf("%w: %s", driver.ErrUncertain, noAnswer("PutItem", r))
	}
	if r.Status != http.StatusPreconditionFailed {
		return t.failure(r)
	}
	now, err := r.Date()
	if err != nil {
		return register.ErrChanged
	}
	v, err := valueOf(answerOf(r).Item, now)
	if err != nil || v.Version == "" {
		return register.ErrChanged
	}
	return &register.Changed{Value: v}
}

// Names reads the whole table, and returns the keys that begin with prefix.
func (t *table) Names(ctx context.Context, prefix string) (keys []string, err error) {
	op := operation{TableName: t.name, ConsistentRead: true}
	if prefix != "" {
		op.FilterExpression, op.ExpressionAttributeValues = "begins_with(#key, :prefix)", item{":prefix": {S: prefix}}
		op.ExpressionAttributeNames = map[string]string{"#key": "key"}
	}
	err = t.scan(ctx, op, func(it item, _ time.Time) { keys = append(keys, it["key"].S) })
	return keys, err
}

// scan reads all pages, and calls do for each item.
func (t *table) scan(ctx context.Context, op operation, do func(it item, now time.Time)) error {
	for {
		a, now, err := t.read(ctx, "Scan", op)
		if err != nil {
			return err
		}
		for _, it := range a.Items {
			do(it, now)
		}
		if op.ExclusiveStartKey = a.LastEvaluatedKey; op.ExclusiveStartKey == nil {
			return nil
		}
	}
}
