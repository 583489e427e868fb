package mongostore_test

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/stores/mongostore"
)

// documents opens a store and its collection on the server of MONGODB_URL.
func documents(t *testing.T) (*mongostore.Store, *mongo.Collection) {
	t.Helper()
	b := newBench(t, serverURL(t, "MONGODB_URL"))
	s, err := mongostore.Open(t.Context(), b.config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	client, err := mongo.Connect(options.Client().ApplyURI(b.config.URI))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Disconnect(t.Context()) })
	return s, client.Database(b.config.Database).Collection(b.config.Collection)
}

func document(t *testing.T, c *mongo.Collection, name string) bson.Raw {
	t.Helper()
	raw, err := c.FindOne(t.Context(), bson.D{{Key: "_id", Value: name}}).Raw()
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// A refused try changes nothing, not even in a document that PHP made.
func TestRefusalWritesNothing(t *testing.T) {
	s, c := documents(t)
	end := bson.NewDateTimeFromTime(time.Now().Add(time.Hour))
	php := bson.D{{Key: "_id", Value: "php"}, {Key: "token", Value: "other"}, {Key: "expires_at", Value: end}}
	if _, err := c.InsertOne(t.Context(), php); err != nil {
		t.Fatal(err)
	}
	take(t, s, request("own", "other"))
	for _, name := range []string{"php", "own"} {
		was := document(t, c, name)
		refused(t, s, request(name, "one"))
		for _, err := range []error{
			second(s.Extend(t.Context(), name, "one", time.Minute)),
			second(s.Convert(t.Context(), request(name, "one"))),
			second(s.Break(t.Context(), name, 41)),
			s.RaiseFence(t.Context(), name, "one", 41),
		} {
			if !errors.Is(err, driver.ErrLost) {
				t.Errorf("%s: %v; want ErrLost", name, err)
			}
		}
		if now := document(t, c, name); !bytes.Equal(was, now) {
			t.Errorf("the document was\n%v\nand is\n%v", was, now)
		}
	}
}

func second[T any](_ T, err error) error { return err }

// The index removes a document a week after its last lease. It never removes a document whose fence
// is ahead of the clock.
func TestForget(t *testing.T) {
	s, c := documents(t)
	specs, err := c.Indexes().ListSpecifications(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for _, spec := range specs {
		found = found || spec.Name == "padlock_forget" && spec.ExpireAfterSeconds != nil && *spec.ExpireAfterSeconds == 7*24*3600
	}
	if !found {
		t.Errorf("the index is not among %+v", specs)
	}
	old := func() bool { return document(t, c, "job").Lookup("padlock", "old").Boolean() }
	r := request("job", "one")
	g := take(t, s, r)
	if !old() {
		t.Error("the index would keep a document for ever")
	}
	if err := s.RaiseFence(t.Context(), "job", "one", g.Fence+uint64((4*24*time.Hour).Microseconds())); err != nil {
		t.Fatal(err)
	}
	if old() {
		t.Error("the index would remove a fence that is ahead of the clock")
	}
	release(t, s, r, 0)
	raw := document(t, c, "job")
	if end := raw.Lookup("expires_at").Time(); raw.Lookup("token").StringValue() != "" || time.Until(end) > time.Second || old() {
		t.Errorf("PHP could not take the free name, or its fence would be removed: %v", raw)
	}
}

// A document of a newer padlock is left alone.
func TestNewerDocument(t *testing.T) {
	s, c := documents(t)
	newer := bson.D{{Key: "_id", Value: "job"}, {Key: "token", Value: ""}, {Key: "expires_at", Value: bson.DateTime(0)},
		{Key: "padlock", Value: bson.D{{Key: "v", Value: 2}}}}
	if _, err := c.InsertOne(t.Context(), newer); err != nil {
		t.Fatal(err)
	}
	was := document(t, c, "job")
	for _, err := range []error{
		second(s.Acquire(t.Context(), request("job", "one"))),
		second(s.Extend(t.Context(), "job", "one", time.Minute)),
		second(s.Release(t.Context(), "job", "one", time.Minute)),
		second(s.Inspect(t.Context(), "job")),
	} {
		if !errors.Is(err, driver.ErrUnavailable) {
			t.Errorf("%v; want ErrUnavailable", err)
		}
	}
	if now := document(t, c, "job"); !bytes.Equal(was, now) {
		t.Errorf("the document was\n%v\nand is\n%v", was, now)
	}
}
