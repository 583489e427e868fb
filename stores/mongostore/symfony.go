package mongostore

import (
	"context"
	"errors"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/padlock-go/padlock/driver"
)

// symfony sends the same requests as Symfony's MongoDbStore. These requests have no pipelines. As
// in PHP, the wall clock of this process decides whether a lease has ended.
type symfony struct{ conn *conn }

// A lease has the fields that the store reads from a document in Symfony's layout.
type lease struct {
	ExpiresAt bson.DateTime `bson:"expires_at"`
}

// wall is the wall clock in MongoDB's milliseconds.
func wall() bson.DateTime { return bson.NewDateTimeFromTime(time.Now()) }

// leaseEnd is the end of a lease that begins at t.
func leaseEnd(t bson.DateTime, ttl time.Duration) bson.DateTime {
	return t + bson.DateTime(millis(ttl))
}

// field is a document of one field.
func field(name string, v any) bson.D { return bson.D{{Key: name, Value: v}} }

// isLock is a filter that finds only documents that padlock or Symfony wrote. Each of them has a
// token and an end.
var isLock = bson.D{
	{Key: "token", Value: field("$type", list{"string", "binData"})},
	{Key: "expires_at", Value: field("$type", "date")},
}

// lockOf is a filter that finds the document of a name if that is a lock.
func lockOf(name string) bson.D { return append(field("_id", text(name)), isLock...) }

// ownHold is the filter for a live hold of token.
func ownHold(name, token string, t bson.DateTime) bson.D {
	return bson.D{{Key: "_id", Value: text(name)}, {Key: "token", Value: text(token)}, {Key: "expires_at", Value: field("$gt", t)}}
}

// take is the update that gives a name to token. It never shortens a lease.
func take(token string, end bson.DateTime) bson.D {
	return bson.D{{Key: "$set", Value: field("token", text(token))}, {Key: "$max", Value: field("expires_at", end)}}
}

func (s *symfony) acquire(ctx context.Context, r *driver.Request) (driver.Grant, error) {
	limited, end, err := s.conn.begin(ctx)
	if err != nil {
		return driver.Grant{}, err
	}
	defer end()
	if r.Replaces.Text() != "" {
		return s.replace(ctx, limited, r)
	}
	for range 10 {
		t := wall()
		filter := bson.D{
			{Key: "_id", Value: text(r.Name)},
			{Key: "$or", Value: list{field("token", text(r.Token.Text())), append(field("expires_at", field("$lte", t)), isLock[:1]...)}},
		}
		_, err := s.conn.locks.UpdateOne(limited, filter, take(r.Token.Text(), leaseEnd(t, r.TTL)), options.UpdateOne().SetUpsert(true))
		if err == nil {
			return driver.Grant{TTL: r.TTL}, nil
		}
		if !isDuplicate(err) {
			return driver.Grant{}, failure(ctx, err, true)
		}
		h, err := s.read(limited, r.Name)
		if err != nil {
			return driver.Grant{}, failure(ctx, err, false)
		}
		if h != nil {
			return driver.Grant{}, heldBy([]driver.Hold{*h})
		}
	}
	return driver.Grant{}, failure(ctx, driver.ErrUnavailable, false)
}

// replace gives the hold of the token r.Replaces to the token r.Token. If r.Token has the hold
// already, replace renews it.
func (s *symfony) replace(ctx, limited context.Context, r *driver.Request) (driver.Grant, error) {
	t := wall()
	for _, token := range []string{r.Token.Text(), r.Replaces.Text()} {
		result, err := s.conn.locks.UpdateOne(limited, ownHold(r.Name, token, t), take(r.Token.Text(), leaseEnd(t, r.TTL)))
		if err != nil {
			return driver.Grant{}, failure(ctx, err, true)
		}
		if result.MatchedCount > 0 {
			return driver.Grant{TTL: r.TTL}, nil
		}
	}
	return driver.Grant{}, driver.ErrLost
}

func (s *symfony) extend(ctx context.Context, name, token string, ttl time.Duration) (driver.Grant, error) {
	limited, end, err := s.conn.begin(ctx)
	if err != nil {
		return driver.Grant{}, err
	}
	defer end()
	t := wall()
	var d lease
	if ttl == 0 {
		err = s.conn.locks.FindOne(limited, ownHold(name, token, t)).Decode(&d)
	} else {
		update := field("$max", field("expires_at", leaseEnd(t, ttl)))
		err = s.conn.locks.FindOneAndUpdate(limited, ownHold(name, token, t), update,
			options.FindOneAndUpdate().SetReturnDocument(options.After)).Decode(&d)
	}
	switch {
	case errors.Is(err, mongo.ErrNoDocuments):
		return driver.Grant{}, driver.ErrLost // the documents do not show why the hold is gone
	case err != nil:
		return driver.Grant{}, failure(ctx, err, ttl != 0)
	}
	return driver.Grant{TTL: max(d.ExpiresAt.Time().Sub(t.Time()), time.Millisecond)}, nil
}

func (s *symfony) release(ctx context.Context, name, token string) (driver.Outcome, error) {
	limited, end, err := s.conn.begin(ctx)
	if err != nil {
		return driver.OutcomeGone, err
	}
	defer end()
	var d lease
	err = s.conn.locks.FindOneAndDelete(limited, bson.D{{Key: "_id", Value: text(name)}, {Key: "token", Value: text(token)}}).Decode(&d)
	switch {
	case errors.Is(err, mongo.ErrNoDocuments):
		return driver.OutcomeGone, nil
	case err != nil:
		return driver.OutcomeGone, failure(ctx, err, true)
	case d.ExpiresAt <= wall():
		return driver.OutcomeGone, nil
	}
	return driver.OutcomeReleased, nil
}

// read returns the hold on a name, or nil if there is none.
func (s *symfony) read(ctx context.Context, name string) (*driver.Hold, error) {
	raw, err := s.conn.locks.FindOne(ctx, field("_id", text(name))).Raw()
	switch {
	case errors.Is(err, mongo.ErrNoDocuments):
		return nil, nil
	case err != nil:
		return nil, err
	case !isDocumentOfALock(raw):
		return nil, notALock(raw)
	}
	if end := bson.DateTime(raw.Lookup("expires_at").DateTime()); end > wall() {
		return &driver.Hold{Foreign: true, Until: end.Time()}, nil
	}
	return nil, nil
}

func (s *symfony) inspect(ctx context.Context, name string) (driver.State, error) {
	st := driver.State{Name: name, Waiters: -1}
	limited, end, err := s.conn.begin(ctx)
	if err != nil {
		return st, err
	}
	defer end()
	h, err := s.read(limited, name)
	if h != nil {
		st.Holds = []driver.Hold{*h}
	}
	return st, failure(ctx, err, false)
}

// evict deletes the document of a name.
func (s *symfony) evict(ctx context.Context, name string, seen uint64) error {
	limited, end, err := s.conn.begin(ctx)
	if err != nil {
		return err
	}
	defer end()
	if seen != 0 {
		return driver.ErrLost // no hold has a fence
	}
	result, err := s.conn.locks.DeleteOne(limited, lockOf(name))
	if err != nil || result.DeletedCount > 0 {
		return failure(ctx, err, true)
	}
	if _, err := s.read(limited, name); err != nil {
		return failure(ctx, err, false)
	}
	return driver.ErrLost
}
