package mongostore

import (
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/padlock-go/padlock/driver"
)

// A lock is one document:
//
//	_id         the name
//	token       the token of the exclusive holder. It is "padlock" if readers hold the name or the
//	            name cools down, and "" if the name is free.
//	expires_at  the end of the last lease or cool-down
//	padlock     the fields of padlock; see record in state.go
//
// PHP's Symfony uses only the first three fields. The fields padlock.token and padlock.until repeat
// what padlock wrote into token and expires_at. If they differ, another program has taken or
// extended the lock.
//
// Every operation is one request with a pipeline, which the server carries out in one step. The
// stages keep temporary values in the field p of the document, which the last stage removes:
//
//	openStages   p.was is the old document, p.now is the server's time, and p.live lists the holds
//	             that have not ended. The field padlock gets the hold of a foreign program, if there
//	             is one.
//	decision     p.do is the name of the change that the operation makes, or "refuse".
//	change       The change is made in the field padlock.
//	writeStages  token and expires_at get the values for PHP. If the operation is refused, all
//	             fields get their old values. MongoDB writes nothing if a document stays as it is.
const (
	refuse = "refuse"

	// nobodyToken is the value of the field token while readers hold the name or the name cools
	// down. To a PHP client, this value looks like the token of another client.
	nobodyToken = "padlock"

	// version is the version of the record that this package reads and writes. The store does not
	// change a document whose record has a higher version.
	version = 1

	// maxReaders is the largest number of readers that can hold a name together. There is a limit
	// because a document of MongoDB has at most 16 MB.
	maxReaders = 1000

	// forgetAfter is how long a document is kept after its last lease has ended.
	forgetAfter = 7 * 24 * time.Hour
)

var epoch = bson.DateTime(0)

func set(pairs ...any) bson.D { return bson.D{{Key: "$set", Value: object(pairs...)}} }

// untouched is true if no other program has written to the document since padlock did.
var untouched = and(
	eq(or0("$token", nil), or0("$padlock.token", nil)),
	eq(or0("$expires_at", nil), or0("$padlock.until", nil)),
)

// foreign is the hold of a program that knows only Symfony's fields.
var foreign = object("t", "$token", "s", false, "f", or0("$padlock.fence", int64(0)), "b", epoch,
	"u", "$expires_at", "x", true, "h", object())

// openStages begins every pipeline.
var openStages = []bson.D{
	set("p", object("was", "$$ROOT", "now", clock)),
	set("padlock", merge(
		literal(object("fence", int64(0), "holds", list{}, "cool", epoch)),
		either(untouched, "$padlock", object("fence", or0("$padlock.fence", int64(0)), "holds", list{foreign})),
	)),
	set("p", merge("$p", object("live", keepElements("$padlock.holds", gt("$$h.u", now))))),
}

// writeStages ends every pipeline.
var writeStages = []bson.D{
	set("p", merge("$p", object("rest", keepElements("$padlock.holds", gt("$$h.u", now))))),
	set("p", merge("$p", object(
		"token", switchExpr("",
			branch{in(false, "$p.rest.s"), op("$arrayElemAt", "$p.rest.t", int32(0))},
			branch{or(some("$p.rest"), gt("$padlock.cool", now)), nobodyToken}),
		"until", greatest(lastTime("$p.rest.u"), "$padlock.cool"),
	))),
	set("padlock", merge("$padlock", object(
		"v", int32(version), "token", "$p.token", "until", "$p.until",
		// If the field "old" is true, an index removes the document a week after its last lease has
		// ended. If the name is used again later, the next fence comes from the clock. This fence
		// must be greater than the last one. So "old" is false if the last fence is far ahead of
		// the clock.
		"old", op("$lt", "$padlock.fence", add(microseconds, (forgetAfter/2).Microseconds())),
	))),
	set("token", unlessRefused("$p.token", "token"),
		"expires_at", unlessRefused("$p.until", "expires_at"),
		"padlock", unlessRefused("$padlock", "padlock")),
	{{Key: "$unset", Value: "p"}},
}

// unlessRefused is the new value of a field. If the operation is refused, the field keeps its old
// value, and a field that was missing stays missing. One stage with $replaceWith would be shorter,
// but FerretDB 2 then adds another _id to the document each time.
func unlessRefused(value expr, field string) expr {
	return either(eq("$p.do", refuse), "$p.was."+field, value)
}

// pipeline returns all stages of an operation: openStages, the stages that only this operation has,
// and writeStages. Each element of vars becomes a stage that adds fields to the document p. The
// expressions of such a stage cannot use the fields that the stage itself adds.
func pipeline(decide expr, vars []bson.D, changes ...branch) []bson.D {
	p := append([]bson.D{}, openStages...)
	for _, v := range vars {
		p = append(p, set("p", merge("$p", v)))
	}
	p = append(p, set("p", merge("$p", object("do", decide))))
	var all []branch
	for _, c := range changes {
		all = append(all, branch{eq("$p.do", c.when), merge("$padlock", c.then)})
	}
	p = append(p, set("padlock", switchExpr("$padlock", all...)))
	return append(p, writeStages...)
}

// hasHold is true if a live hold belongs to the token.
func hasHold(token any) expr { return in(token, "$p.live.t") }

func isToken(token any) expr { return eq("$$h.t", token) }

// hasOtherIntent is true if a reader with another token waits for its promotion. An intent lasts at
// most driver.MaxIntent. If an intent seems to last longer, the clock was set back, and the intent
// does not count.
func hasOtherIntent(token any) expr {
	return and(gt("$padlock.intent.u", now), op("$lte", "$padlock.intent.u", timeAfter(driver.MaxIntent)),
		in("$padlock.intent.t", "$p.live.t"), ne("$padlock.intent.t", token))
}

// acquire makes one try. The first row that applies says what the try does:
//
//	state of the name                         p.do
//	r.Token has a live hold                   repeat: the hold gets a full lease
//	a new fence is needed and there is none   refuse
//	r.Replaces is a token with a live hold    replace: the hold gets r.Token and a new fence
//	r.Replaces is another token               refuse
//	others are in the way                     refuse
//	else                                      grant
func acquire(r *driver.Request) []bson.D {
	token := literal(text(r.Token.Text()))
	until := timeAfter(r.TTL)
	longer := object("u", greatest("$$h.u", until))
	if r.Replaces.Text() != "" {
		return replace(r, token, longer)
	}
	blocked := or(some("$p.others"), gt("$padlock.cool", now))
	fence := nextFence(r.FenceAbove)
	if r.Shared {
		blocked = or(in(false, "$p.others.s"), gt("$padlock.cool", now), hasOtherIntent(token),
			op("$gte", size("$p.live"), int32(maxReaders)))
		joins := and(some("$p.others"), gt("$padlock.fence", int64(r.FenceAbove)))
		fence = either(joins, "$padlock.fence", fence)
	}
	hold := object("t", token, "s", r.Shared, "f", "$p.fence", "b", now, "u", until, "h", literal(holderFields(&r.Holder)))
	return pipeline(
		switchExpr("grant",
			branch{hasHold(token), "repeat"},
			branch{or(blocked, usedUp("$p.fence")), refuse}),
		[]bson.D{object("others", keepElements("$p.live", ne("$$h.t", token))), object("fence", fence)},
		branch{"repeat", object("holds", mapElements("$padlock.holds", isToken(token), merge("$$h", longer)))},
		branch{"grant", object("fence", "$p.fence", "holds", op("$concatArrays", "$p.live", list{hold}))},
	)
}

// replace returns the pipeline of acquire for a request that has r.Replaces.
func replace(r *driver.Request, token any, longer bson.D) []bson.D {
	old := literal(text(r.Replaces.Text()))
	taken := object("t", token, "f", "$p.fence", "b", now, "x", false, "h", literal(holderFields(&r.Holder)))
	return pipeline(
		switchExpr(refuse,
			branch{hasHold(token), "repeat"},
			branch{and(hasHold(old), op("$lt", "$p.fence", int64(driver.MaxFence))), "replace"}),
		[]bson.D{object("fence", nextFence(r.FenceAbove))},
		branch{"repeat", object("holds", mapElements("$padlock.holds", isToken(token), merge("$$h", longer)))},
		branch{"replace", object(
			"fence", "$p.fence",
			"holds", mapElements("$p.live", isToken(old), merge("$$h", longer, taken)),
			"intent", either(eq("$padlock.intent.t", old), object("t", token, "u", "$padlock.intent.u"), "$padlock.intent"),
		)},
	)
}

// extend makes a live lease last at least ttl from now.
func extend(token string, ttl time.Duration) []bson.D {
	t := literal(text(token))
	return pipeline(either(hasHold(t), "extend", refuse), nil,
		branch{"extend", object("holds", mapElements("$padlock.holds", isToken(t), merge("$$h", object("u", greatest("$$h.u", timeAfter(ttl))))))},
	)
}

// release removes the hold of a token. If the hold was live, a cool-down may follow, in which
// nobody can get the name. The cool-down lasts for keepFor.
func release(token string, keepFor time.Duration) []bson.D {
	t := literal(text(token))
	end := timeAfter(keepFor)
	return pipeline(either(in(t, "$padlock.holds.t"), "release", refuse),
		[]bson.D{object("mine", op("$arrayElemAt", keepElements("$p.live", isToken(t)), int32(0)))},
		branch{"release", merge(
			object("holds", keepElements("$padlock.holds", ne("$$h.t", t)), "intent", intentWithout(t)),
			either(and(hasHold(t), gt(end, now), op("$gte", end, "$padlock.cool")),
				object("cool", end, "cooled", "$p.mine.h"), object()),
		)},
	)
}

// intentWithout returns the new value of the name's intent when a token gives up its intent. The
// intent of another token stays.
func intentWithout(token any) expr {
	return either(eq("$padlock.intent.t", token), object(), "$padlock.intent")
}

// convert makes a live hold shared or exclusive. The first row that applies says what happens:
//
//	state of the name                        p.do     what happens
//	the token has no live hold               refuse   nothing changes
//	r asks for an exclusive hold and has it  mode     the hold gets a full lease
//	r asks for a shared hold                 mode     the hold is shared, with a full lease
//	another reader waits for its promotion   refuse   nothing changes
//	there are other readers                  intend   new readers are kept out for a while
//	the fences are used up                   refuse   nothing changes
//	else                                     promote  the hold becomes exclusive, with a new fence
func convert(r *driver.Request) []bson.D {
	t := literal(text(r.Token.Text()))
	longer := object("s", r.Shared, "u", greatest("$$h.u", timeAfter(r.TTL)))
	stays := op("$not", some("$p.reads"))
	if r.Shared {
		stays = op("$not", false)
	}
	return pipeline(
		switchExpr("promote",
			branch{op("$not", hasHold(t)), refuse},
			branch{stays, "mode"},
			branch{hasOtherIntent(t), refuse},
			branch{gt(size("$p.live"), int32(1)), "intend"},
			branch{usedUp("$p.fence"), refuse}),
		[]bson.D{object("reads", keepElements("$p.live", and(isToken(t), "$$h.s")), "fence", nextFence(r.FenceAbove))},
		branch{"mode", object("intent", intentWithout(t), "holds", mapElements("$padlock.holds", isToken(t), merge("$$h", longer)))},
		branch{"intend", object("intent", object("t", t, "u", timeAfter(driver.MaxIntent)))},
		branch{"promote", object("fence", "$p.fence", "intent", intentWithout(t),
			"holds", mapElements("$padlock.holds", isToken(t), merge("$$h", longer, object("f", "$p.fence"))))},
	)
}

// evict ends all holds and the cool-down, and raises the fence. It does so only if the fence of the
// name is the one that the caller has seen.
func evict(seen uint64) []bson.D {
	same := eq("$padlock.fence", int64(seen))
	if seen == 0 { // only PHP has used the name
		same = and(same, some("$p.live"))
	}
	return pipeline(either(and(same, op("$lt", "$p.fence", int64(driver.MaxFence))), "evict", refuse),
		[]bson.D{object("fence", nextFence(0))},
		branch{"evict", object("fence", "$p.fence", "holds", list{}, "cool", epoch, "intent", object())},
	)
}

// raise makes the fence of a live hold at least minFence. It never lowers a fence.
func raise(token string, minFence uint64) []bson.D {
	t := literal(text(token))
	higher := merge("$$h", object("f", greatest("$$h.f", int64(minFence))))
	return pipeline(either(hasHold(t), "raise", refuse), nil,
		branch{"raise", object(
			"fence", greatest("$padlock.fence", int64(minFence)),
			"holds", mapElements("$padlock.holds", isToken(t), higher),
		)},
	)
}
