package dynamostore

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/padlock-go/padlock/storekit/overhttp"
)

// An attribute is a value in a request or a reply.
type attribute struct {
	S string `json:"S,omitempty"`
	N string `json:"N,omitempty"`
}

type item map[string]attribute

// An operation is the body of a request. A reply has some of the same fields.
type operation struct {
	TableName                           string
	Key                                 item              `json:",omitempty"`
	Item                                item              `json:",omitempty"`
	ConsistentRead                      bool              `json:",omitempty"`
	ConditionExpression                 string            `json:",omitempty"`
	FilterExpression                    string            `json:",omitempty"`
	ExpressionAttributeNames            map[string]string `json:",omitempty"` // some names are words of the language
	ExpressionAttributeValues           item              `json:",omitempty"`
	ReturnValuesOnConditionCheckFailure string            `json:",omitempty"`
	ExclusiveStartKey                   item              `json:",omitempty"`
}

// An answer is the body of a reply.
type answer struct {
	Type             string `json:"__type"` // of an error: "com.amazonaws…#ConditionalCheckFailedException"
	Message          string `json:"message"`
	Item             item   // of GetItem, or of a refusal
	Items            []item // of Scan; nil if the reply is of something else
	LastEvaluatedKey item
}

// request makes the request for an operation, which has a JSON form.
func request(name string, op any) (overhttp.Request, error) {
	body, err := json.Marshal(op)
	return overhttp.Request{
		Method: http.MethodPost, Body: body,
		Header: map[string]string{"X-Amz-Target": "DynamoDB_20120810." + name, "Content-Type": "application/x-amz-json-1.0"},
	}, err
}

// answerOf reads the body of a reply. A body that is no JSON has neither an item nor a type.
func answerOf(r *overhttp.Reply) (a answer) {
	_ = json.Unmarshal(r.Body, &a)
	return a
}

// isAnswer reports whether a body can be that of a GetItem, PutItem or Scan. A proxy that answers
// in the place of the service may send JSON, too.
func isAnswer(body []byte) bool {
	var fields map[string]json.RawMessage
	if json.Unmarshal(body, &fields) != nil || fields == nil {
		return false
	}
	for _, known := range []string{"Item", "Attributes", "ConsumedCapacity", "ItemCollectionMetrics", "Items", "Count", "ScannedCount", "LastEvaluatedKey"} {
		delete(fields, known)
	}
	return len(fields) == 0
}

// noAnswer says that a reply with the status of a success is not one of the service.
func noAnswer(name string, r *overhttp.Reply) string {
	return fmt.Sprintf("the reply %d to %s is none of DynamoDB: look for a proxy before the service: %.100q", r.Status, name, r.Body)
}

// typeOf returns the type of an error, such as ConditionalCheckFailedException.
func (a *answer) typeOf() string { return a.Type[strings.LastIndex(a.Type, "#")+1:] }

// judge gives errors the status that other services have for them: DynamoDB answers 400 to all.
func judge(r *overhttp.Reply) {
	if r.Status != http.StatusBadRequest {
		return
	}
	switch a := answerOf(r); a.typeOf() {
	case "ConditionalCheckFailedException", "TransactionConflictException":
		r.Status = http.StatusPreconditionFailed
	case "ProvisionedThroughputExceededException", "RequestLimitExceeded", "ThrottlingException":
		r.Status = http.StatusTooManyRequests
	case "ResourceNotFoundException":
		r.Status = http.StatusNotFound
	}
}
