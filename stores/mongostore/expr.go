package mongostore

import (
	"math"
	"time"
	"unicode/utf8"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/padlock-go/padlock/driver"
)

// The pipelines of this package consist of expressions in MongoDB's aggregation language. The
// functions in this file build these expressions.

const (
	// clock is the server's clock. It stays the same during a request.
	clock = "$$NOW"
	// now is the server's clock in a pipeline. The first stage stores it under this name, so only
	// the stages after the first can use it.
	now = "$p.now"
)

type (
	expr = any
	list = bson.A
)

// op is the expression {name: args}.
func op(name string, args ...expr) bson.D { return bson.D{{Key: name, Value: list(args)}} }

// literal is a value that MongoDB must not read as an expression, such as a token that begins with
// a dollar sign.
func literal(v any) bson.D { return bson.D{{Key: "$literal", Value: v}} }

// object is a document whose values are expressions. pairs is a name, its value, the next name, its
// value, and so on.
func object(pairs ...any) bson.D {
	d := bson.D{}
	for i := 0; i < len(pairs); i += 2 {
		d = append(d, bson.E{Key: pairs[i].(string), Value: pairs[i+1]})
	}
	return d
}

func eq(a, b expr) expr              { return op("$eq", a, b) }
func ne(a, b expr) expr              { return op("$ne", a, b) }
func gt(a, b expr) expr              { return op("$gt", a, b) }
func and(args ...expr) expr          { return op("$and", args...) }
func or(args ...expr) expr           { return op("$or", args...) }
func greatest(args ...expr) expr     { return op("$max", args...) }
func in(x, array expr) expr          { return op("$in", x, array) }
func either(cond, yes, no expr) expr { return op("$cond", cond, yes, no) }
func merge(docs ...expr) expr        { return op("$mergeObjects", docs...) }
func add(args ...expr) expr          { return op("$add", args...) }
func size(array expr) expr           { return bson.D{{Key: "$size", Value: array}} }
func some(array expr) expr           { return gt(size(array), int32(0)) }

// or0 is x, or zero if x is missing.
func or0(x, zero expr) expr { return op("$ifNull", x, zero) }

// keepElements keeps the elements of an array for which cond holds. The expression cond refers to
// an element as $$h.
func keepElements(array, cond expr) expr {
	return bson.D{{Key: "$filter", Value: object("input", array, "as", "h", "cond", cond)}}
}

// mapElements makes a new array, in which newElement replaces every element for which cond holds.
// Both expressions refer to the old element as $$h.
func mapElements(array, cond, newElement expr) expr {
	return bson.D{{Key: "$map", Value: object("input", array, "as", "h", "in", either(cond, newElement, "$$h"))}}
}

// lastTime is the latest time in an array, or the server's time if that is later.
func lastTime(times expr) expr {
	return bson.D{{Key: "$reduce", Value: object("input", times, "initialValue", now, "in", greatest("$$value", "$$this"))}}
}

// A branch is one case of a $switch expression. It consists of a condition, and of the result if
// the condition holds.
type branch struct{ when, then expr }

// switchExpr is the result of the first branch whose condition holds. If there is no such branch,
// it is elseExpr.
func switchExpr(elseExpr expr, branches ...branch) expr {
	all := list{}
	for _, b := range branches {
		all = append(all, object("case", b.when, "then", b.then))
	}
	return bson.D{{Key: "$switch", Value: object("branches", all, "default", elseExpr)}}
}

// timeAfter is the server's time plus d. MongoDB's times are whole milliseconds.
func timeAfter(d time.Duration) expr { return add(now, millis(d)) }

// millis rounds up, so that a lease is never shorter than it should be.
func millis(d time.Duration) int64 {
	n := int64(d / time.Millisecond)
	if d > time.Duration(n)*time.Millisecond {
		n++
	}
	return n
}

// duration is the reverse of the function millis.
func duration(millis int64) time.Duration {
	if millis > math.MaxInt64/int64(time.Millisecond) {
		return math.MaxInt64
	}
	return time.Duration(millis) * time.Millisecond
}

// text is the value for a name or a token. A string of MongoDB is UTF-8. Bytes that are not UTF-8
// become binary data, which is never equal to a string.
func text(s string) any {
	if utf8.ValidString(s) {
		return s
	}
	return bson.Binary{Data: []byte(s)}
}

// fromText is the reverse of the function text. If v is neither a string nor binary data, ok is
// false.
func fromText(v bson.RawValue) (s string, ok bool) {
	if s, ok = v.StringValueOK(); ok {
		return s, true
	}
	_, b, ok := v.BinaryOK()
	return string(b), ok
}

// microseconds is the server's clock in microseconds since 1970. Fences use the same unit.
var microseconds = op("$multiply", bson.D{{Key: "$toLong", Value: now}}, int64(1000))

// nextFence is the fence of a new grant. It is the largest of three numbers: the server's clock in
// microseconds since 1970, the last fence plus one, and fenceAbove plus one.
func nextFence(fenceAbove uint64) expr {
	return greatest(add("$padlock.fence", int64(1)), int64(fenceAbove)+1, microseconds)
}

// usedUp is true if a fence has reached driver.MaxFence, so that no higher fence is possible.
func usedUp(fence expr) expr { return op("$gte", fence, int64(driver.MaxFence)) }
