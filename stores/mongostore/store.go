package mongostore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit"
)

// Store keeps locks in a collection of MongoDB. It is safe for concurrent use.
type Store struct {
	guarantees driver.Guarantees
	conn       *conn
	symfony    *symfony // nil in padlock's own layout
}

var _ interface {
	driver.Store
	driver.Converter
	driver.Admin
	driver.FenceRaiser
	driver.Places
	driver.Reporter
} = (*Store)(nil)

// Open opens a store. Unless the option Lazy is given, Open checks that the server answers, and
// makes an index. The index removes the document of a name that nobody has used for a week. ctx
// limits only Open itself. No error contains a password.
func Open(ctx context.Context, c Config, opts ...Option) (*Store, error) {
	var cfg config
	storekit.Apply(&cfg, opts)
	if err := c.check(); err != nil {
		return nil, err
	}
	conn, err := connect(ctx, &c)
	if err != nil {
		return nil, err
	}
	s := &Store{guarantees: cfg.guarantees(), conn: conn}
	if cfg.symfony {
		s.symfony = &symfony{conn}
	}
	if cfg.lazy {
		return s, nil
	}
	if err := s.prepare(ctx); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// indexName is the name of the index that removes documents. Symfony's index orders the same field
// the other way, so both indexes can exist.
const indexName = "padlock_forget"

// prepare checks that the server answers, and makes the index. A user without the right to make the
// index can still use locks.
func (s *Store) prepare(ctx context.Context) error {
	limited, end, err := s.conn.begin(ctx)
	if err != nil {
		return err
	}
	defer end()
	if err := s.conn.client.Ping(limited, nil); err != nil {
		return failure(ctx, err, false)
	}
	if s.symfony != nil {
		return nil
	}
	_, err = s.conn.locks.Indexes().CreateOne(limited, mongo.IndexModel{
		Keys: bson.D{{Key: "expires_at", Value: -1}},
		Options: options.Index().SetName(indexName).
			SetExpireAfterSeconds(int32(forgetAfter / time.Second)).
			SetPartialFilterExpression(bson.D{{Key: "padlock.old", Value: true}}),
	})
	var refused mongo.CommandError
	if errors.As(err, &refused) && slices.Contains(notAllowed, int(refused.Code)) {
		return nil
	}
	return failure(ctx, err, false)
}

// Guarantees implements driver.Store.
func (s *Store) Guarantees() driver.Guarantees {
	g := s.guarantees
	g.Notes = slices.Clone(g.Notes)
	return g
}

// Close implements driver.Store.
func (s *Store) Close() error {
	s.conn.close()
	return nil
}

// A request changes the document of one name.
type request struct {
	name   string
	stages []bson.D
	upsert bool // a missing document is made
	before bool // returns the document as it was before the change
}

// document returns a filter that finds the document of a name, unless a newer padlock or another
// program has written that document.
func document(name string) bson.D {
	return append(lockOf(name), bson.D{
		{Key: "padlock.v", Value: bson.D{{Key: "$not", Value: bson.D{{Key: "$gt", Value: int32(version)}}}}},
	}...)
}

// errNoDocument means that the name has no document.
var errNoDocument = errors.New("no document")

// send carries out a request. If two processes make the same document at the same time, one of them
// can get an error about a duplicate key. By then the document exists, so send tries again.
func (s *Store) send(ctx context.Context, r request) (*state, error) {
	limited, end, err := s.conn.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	image := options.After
	if r.before {
		image = options.Before
	}
	o := options.FindOneAndUpdate().SetProjection(projection).SetReturnDocument(image).SetUpsert(r.upsert)
	var raw bson.Raw
	for range 3 {
		raw, err = s.conn.locks.FindOneAndUpdate(limited, document(r.name), r.stages, o).Raw()
		if !isDuplicate(err) {
			break
		}
	}
	switch {
	case isDuplicate(err), errors.Is(err, mongo.ErrNoDocuments):
		return s.read(ctx, limited, r.name)
	case err != nil:
		return nil, failure(ctx, err, true)
	}
	return decode(raw)
}

// read returns the state of a name, or errNoDocument.
func (s *Store) read(ctx, limited context.Context, name string) (*state, error) {
	raw, err := s.conn.locks.FindOne(limited, bson.D{{Key: "_id", Value: text(name)}}, options.FindOne().SetProjection(projection)).Raw()
	switch {
	case errors.Is(err, mongo.ErrNoDocuments):
		return nil, errNoDocument
	case err != nil:
		return nil, failure(ctx, err, false)
	}
	return decode(raw)
}

// replaceMissing returns newErr if err means that the name has no document. Otherwise it returns
// err.
func replaceMissing(err, newErr error) error {
	if errors.Is(err, errNoDocument) {
		return newErr
	}
	return err
}

// Acquire implements driver.Store with one request.
func (s *Store) Acquire(ctx context.Context, r driver.Request) (driver.Grant, error) {
	if err := r.Validate(&s.guarantees); err != nil {
		return driver.Grant{}, err
	}
	if r.Shared && !s.guarantees.Shared {
		return driver.Grant{}, fmt.Errorf("shared locks in Symfony's layout: %w", errors.ErrUnsupported)
	}
	if s.symfony != nil {
		return s.symfony.acquire(ctx, &r)
	}
	st, err := s.send(ctx, request{name: r.Name, stages: acquire(&r), upsert: r.Replaces.Text() == ""})
	if err != nil {
		return driver.Grant{}, replaceMissing(err, driver.ErrLost)
	}
	return st.acquireResult(&r)
}

// Extend implements driver.Store with one request.
func (s *Store) Extend(ctx context.Context, name, token string, ttl time.Duration) (driver.Grant, error) {
	if err := driver.CheckExtend(name, token, ttl, &s.guarantees); err != nil {
		return driver.Grant{}, err
	}
	if s.symfony != nil {
		return s.symfony.extend(ctx, name, token, ttl)
	}
	st, err := s.send(ctx, request{name: name, stages: extend(token, ttl)})
	if err != nil {
		return driver.Grant{}, replaceMissing(err, driver.ErrLost)
	}
	h, err := st.held(token)
	if err != nil {
		return driver.Grant{}, err
	}
	g := st.grant(h)
	g.Shared = h.Shared
	return g, nil
}

// Release implements driver.Store with one request.
func (s *Store) Release(ctx context.Context, name, token string, keep time.Duration) (driver.Outcome, error) {
	if err := driver.CheckRelease(name, token, keep, &s.guarantees); err != nil {
		return driver.OutcomeGone, err
	}
	if s.symfony != nil {
		return s.symfony.release(ctx, name, token)
	}
	st, err := s.send(ctx, request{name: name, stages: release(token, keep), before: true})
	if err != nil {
		return driver.OutcomeGone, replaceMissing(err, nil)
	}
	return st.releaseOutcome(token), nil
}

// Convert implements driver.Converter with one request.
func (s *Store) Convert(ctx context.Context, r driver.Request) (driver.Grant, error) {
	if err := r.Validate(&s.guarantees); err != nil {
		return driver.Grant{}, err
	}
	if s.symfony != nil {
		return driver.Grant{}, fmt.Errorf("shared locks in Symfony's layout: %w", errors.ErrUnsupported)
	}
	st, err := s.send(ctx, request{name: r.Name, stages: convert(&r)})
	if err != nil {
		return driver.Grant{}, replaceMissing(err, driver.ErrLost)
	}
	return st.convertResult(&r)
}

// Break implements driver.Admin. In Symfony's layout there are no fences, so seenFence is 0
// there.
func (s *Store) Break(ctx context.Context, name string, seenFence uint64) (uint64, error) {
	if err := driver.CheckName(name, &s.guarantees); err != nil {
		return 0, err
	}
	if s.symfony != nil {
		return 0, s.symfony.evict(ctx, name, seenFence)
	}
	st, err := s.send(ctx, request{name: name, stages: evict(seenFence), before: true})
	if err != nil {
		return 0, replaceMissing(err, driver.ErrLost)
	}
	return st.evictResult(seenFence)
}

// RaiseFence implements driver.FenceRaiser with one request.
func (s *Store) RaiseFence(ctx context.Context, name, token string, fence uint64) error {
	if err := driver.CheckHold(name, token, &s.guarantees); err != nil {
		return err
	}
	if err := driver.CheckFence(fence); err != nil {
		return err
	}
	if s.symfony != nil {
		return fmt.Errorf("fences in Symfony's layout: %w", errors.ErrUnsupported)
	}
	st, err := s.send(ctx, request{name: name, stages: raise(token, fence)})
	if err != nil {
		return replaceMissing(err, driver.ErrLost)
	}
	_, err = st.held(token)
	return err
}
