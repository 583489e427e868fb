package mongostore_test

import (
	"bytes"
	"context"
	"flag"
	"os"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/stores/mongostore"
)

var update = flag.Bool("update", false, "write the commands to testdata/commands")

// The commands that the store sends are those of testdata/commands. A change of a command is a
// change of the format: run the suite on a server (MONGODB_URL), then accept the new commands with
// go test -run TestCommands -args -update.
func TestCommands(t *testing.T) {
	t.Parallel()
	shared := request("job", "one")
	shared.Shared, shared.TTL = true, 2500*time.Microsecond+time.Second
	full := request("\xff$job", "$one")
	full.FenceAbove, full.Holder.Plan = 41, time.Minute
	adopts := request("job", "two")
	adopts.Replaces = driver.TokenOf("one")
	symfonys := []mongostore.Option{mongostore.SymfonyLayout()}
	for name, c := range map[string]struct {
		opts []mongostore.Option
		do   func(ctx context.Context, s *mongostore.Store)
	}{
		"acquire":         {nil, func(ctx context.Context, s *mongostore.Store) { s.Acquire(ctx, request("job", "one")) }},
		"acquire-full":    {nil, func(ctx context.Context, s *mongostore.Store) { s.Acquire(ctx, full) }},
		"acquire-shared":  {nil, func(ctx context.Context, s *mongostore.Store) { s.Acquire(ctx, shared) }},
		"adopt":           {nil, func(ctx context.Context, s *mongostore.Store) { s.Acquire(ctx, adopts) }},
		"extend":          {nil, func(ctx context.Context, s *mongostore.Store) { s.Extend(ctx, "job", "one", time.Minute) }},
		"release":         {nil, func(ctx context.Context, s *mongostore.Store) { s.Release(ctx, "job", "one", time.Second) }},
		"promote":         {nil, func(ctx context.Context, s *mongostore.Store) { s.Convert(ctx, request("job", "one")) }},
		"demote":          {nil, func(ctx context.Context, s *mongostore.Store) { s.Convert(ctx, shared) }},
		"break":           {nil, func(ctx context.Context, s *mongostore.Store) { s.Break(ctx, "job", 41) }},
		"break-foreign":   {nil, func(ctx context.Context, s *mongostore.Store) { s.Break(ctx, "job", 0) }},
		"raise":           {nil, func(ctx context.Context, s *mongostore.Store) { s.RaiseFence(ctx, "job", "one", 41) }},
		"symfony-acquire": {symfonys, func(ctx context.Context, s *mongostore.Store) { s.Acquire(ctx, request("job", "one")) }},
		"symfony-adopt":   {symfonys, func(ctx context.Context, s *mongostore.Store) { s.Acquire(ctx, adopts) }},
		"symfony-extend":  {symfonys, func(ctx context.Context, s *mongostore.Store) { s.Extend(ctx, "job", "one", time.Minute) }},
		"symfony-verify":  {symfonys, func(ctx context.Context, s *mongostore.Store) { s.Extend(ctx, "job", "one", 0) }},
		"symfony-release": {symfonys, func(ctx context.Context, s *mongostore.Store) { s.Release(ctx, "job", "one", 0) }},
		"symfony-break":   {symfonys, func(ctx context.Context, s *mongostore.Store) { s.Break(ctx, "job", 0) }},
		"list":            {nil, func(ctx context.Context, s *mongostore.Store) { s.List(ctx, "job/\xc3") }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sc := &script{reply: always(refusal(14031))} // the first command is enough
			s := sc.serve(t, c.opts...)
			sc.reach(func() error { c.do(t.Context(), s); return nil })
			if len(sc.sent) != 1 {
				t.Fatalf("%d commands were sent", len(sc.sent))
			}
			compare(t, "testdata/commands/"+name+".jsonl", sc.sent[0])
		})
	}
}

func compare(t *testing.T, file string, command bson.Raw) {
	t.Helper()
	var d bson.D
	if err := bson.Unmarshal(command, &d); err != nil {
		t.Fatal(err)
	}
	got := lines(t, d)
	if *update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("the command differs from %s:\n%s", file, got)
	}
}

// lines writes a command with a line for each field, and for each stage of a pipeline.
func lines(t *testing.T, command bson.D) []byte {
	t.Helper()
	var out bytes.Buffer
	line := func(e bson.E) {
		text, err := bson.MarshalExtJSON(bson.D{{Key: e.Key, Value: relative(e.Value)}}, true, false)
		if err != nil {
			t.Fatal(err)
		}
		out.Write(append(text, '\n'))
	}
	for _, e := range command {
		stages, ok := e.Value.(bson.A) // a pipeline, or the updates of a command
		switch {
		case e.Key == "maxTimeMS": // it depends on the time of the test
		case ok:
			for _, stage := range stages {
				line(bson.E{Key: e.Key, Value: stage})
			}
		default:
			line(e)
		}
	}
	return out.Bytes()
}

// relative replaces the times of this process's clock by "now", plus whole minutes.
func relative(v any) any {
	switch v := v.(type) {
	case bson.DateTime:
		if d := time.Until(v.Time()).Round(time.Minute); v != 0 {
			return "now+" + d.String()
		}
	case bson.D:
		for i := range v {
			v[i].Value = relative(v[i].Value)
		}
	case bson.A:
		for i := range v {
			v[i] = relative(v[i])
		}
	}
	return v
}

// Every write waits for a majority and its journals, whatever the URL says.
func TestWritesAreDurable(t *testing.T) {
	t.Parallel()
	for _, opts := range [][]mongostore.Option{nil, {mongostore.SymfonyLayout()}} {
		sc := &script{reply: always(refusal(14031))}
		s := sc.serve(t, opts...)
		ctx := t.Context()
		adopts := driver.Request{Name: "job", Token: driver.TokenOf("two"), Replaces: driver.TokenOf("one"), TTL: time.Minute}
		sc.reach(func() error { return second(s.Acquire(ctx, request("job", "one"))) })
		sc.reach(func() error { return second(s.Acquire(ctx, adopts)) })
		sc.reach(func() error { return second(s.Extend(ctx, "job", "one", time.Minute)) })
		sc.reach(func() error { return second(s.Release(ctx, "job", "one", 0)) })
		sc.reach(func() error { return second(s.Break(ctx, "job", 0)) })
		if len(sc.sent) != 5 {
			t.Errorf("%d commands were sent", len(sc.sent))
		}
		for _, command := range sc.sent {
			w, _ := command.Lookup("writeConcern", "w").StringValueOK()
			if j, _ := command.Lookup("writeConcern", "j").BooleanOK(); w != "majority" || !j {
				t.Errorf("not durable: %v", command)
			}
		}
	}
}

// Open asks for the index that removes the documents of names that nobody uses any more. A user
// without the right to make an index can open the store, too.
func TestIndex(t *testing.T) {
	t.Parallel()
	for _, reply := range []bson.D{ok(), refusal(13)} {
		sc := &script{reply: always(reply)}
		s, err := sc.open(t)
		if err != nil {
			t.Fatal(err)
		}
		s.Close()
		if len(sc.sent) != 1 {
			t.Fatalf("%d commands were sent", len(sc.sent))
		}
		var command struct {
			Collection string `bson:"createIndexes"`
			Indexes    []struct {
				Key     bson.M `bson:"key"`
				Seconds int    `bson:"expireAfterSeconds"`
				Filter  bson.M `bson:"partialFilterExpression"`
			} `bson:"indexes"`
		}
		if err := bson.Unmarshal(sc.sent[0], &command); err != nil || command.Collection != "padlock" || len(command.Indexes) != 1 {
			t.Fatalf("%v, %v", sc.sent[0], err)
		}
		i := command.Indexes[0]
		if len(i.Key) != 1 || i.Key["expires_at"] == nil || i.Seconds != 7*24*60*60 || len(i.Filter) != 1 || i.Filter["padlock.old"] != true {
			t.Errorf("the index is %+v", i)
		}
	}
	sc := &script{reply: always(refusal(14031))}
	s, err := sc.open(t, mongostore.SymfonyLayout())
	if err != nil || len(sc.sent) != 0 {
		t.Fatalf("in Symfony's layout, Open sends %v, %v", sc.sent, err)
	}
	s.Close()
}
