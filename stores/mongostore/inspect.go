package mongostore

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/padlock-go/padlock/driver"
)

// Inspect implements driver.Admin.
func (s *Store) Inspect(ctx context.Context, name string) (driver.State, error) {
	empty := driver.State{Name: name, Waiters: -1}
	if err := driver.CheckName(name, &s.guarantees); err != nil {
		return empty, err
	}
	if s.symfony != nil {
		return s.symfony.inspect(ctx, name)
	}
	limited, end, err := s.conn.begin(ctx)
	if err != nil {
		return empty, err
	}
	defer end()
	st, err := s.read(ctx, limited, name)
	if err != nil {
		return empty, replaceMissing(err, nil)
	}
	return st.report(name), nil
}

// List implements driver.Admin. In Symfony's layout it returns errors.ErrUnsupported.
func (s *Store) List(ctx context.Context, prefix string) ([]driver.State, error) {
	if s.symfony != nil {
		return nil, fmt.Errorf("a list of the locks in Symfony's layout: %w", errors.ErrUnsupported)
	}
	limited, end, err := s.conn.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	cursor, err := s.conn.locks.Find(limited, busyNames(prefix), options.Find().SetProjection(projection))
	if err != nil {
		return nil, failure(ctx, err, false)
	}
	defer cursor.Close(limited)
	var out []driver.State
	var failed error
	for cursor.Next(limited) {
		st, err := decode(cursor.Current)
		if err != nil {
			failed = err
			continue
		}
		name, ok := fromText(st.ID)
		if ok && strings.HasPrefix(name, prefix) && len(st.holdsExcept("")) > 0 {
			out = append(out, st.report(name))
		}
	}
	return out, errors.Join(failed, failure(ctx, cursor.Err(), false))
}

// busyNames is a filter for the documents of busy names that begin with prefix. The filter also
// lets through all busy names that are not UTF-8. They are binary data, which MongoDB orders by
// length first, so a range of names cannot select them. MongoDB compares strings byte by byte.
func busyNames(prefix string) bson.D {
	for !utf8.ValidString(prefix) {
		prefix = prefix[:len(prefix)-1]
	}
	from := bson.D{{Key: "$gte", Value: prefix}}
	if to := afterPrefix(prefix); to != "" {
		from = append(from, bson.E{Key: "$lt", Value: to})
	}
	return bson.D{
		{Key: "$or", Value: list{field("_id", from), field("_id", field("$type", "binData"))}},
		{Key: "$expr", Value: gt("$expires_at", clock)},
	}
}

// afterPrefix returns the smallest string that is greater than all strings with the given prefix.
// It returns "" if there is no such string.
func afterPrefix(prefix string) string {
	runes := []rune(prefix)
	for i := len(runes) - 1; i >= 0; i-- {
		switch r := runes[i]; {
		case r == utf8.MaxRune:
			continue
		case r == 0xD7FF: // no string has the runes from here to 0xE000
			return string(runes[:i]) + "\uE000"
		default:
			return string(append(runes[:i:i], r+1))
		}
	}
	return ""
}

// idDocument is the _id of the document in which StoreID keeps the store's ID. The _id of a lock's
// document is a string or binary data, so it never equals idDocument.
var idDocument = field("padlock", "store")

// StoreID implements driver.Places. The ID is in a document of the collection. In Symfony's
// layout there is no ID.
func (s *Store) StoreID(ctx context.Context) (string, error) {
	if s.symfony != nil {
		return "", fmt.Errorf("an id of the store in Symfony's layout: %w", errors.ErrUnsupported)
	}
	limited, end, err := s.conn.begin(ctx)
	if err != nil {
		return "", err
	}
	defer end()
	var d struct {
		ID string `bson:"store"`
	}
	err = s.conn.locks.FindOneAndUpdate(limited, field("_id", idDocument), field("$setOnInsert", field("store", rand.Text())),
		options.FindOneAndUpdate().SetUpsert(true).SetReturnDocument(options.After)).Decode(&d)
	if err != nil {
		return "", fmt.Errorf("%w: the id of the store: %w", driver.ErrUnavailable, failure(ctx, err, false))
	}
	return d.ID, nil
}

// Location implements driver.Places: each name has a document of its own.
func (s *Store) Location(name string) (string, error) {
	return name, driver.CheckName(name, &s.guarantees)
}

// SamePlace implements driver.Places. Two stores are in the same place if their URLs have a
// server in common.
func (s *Store) SamePlace(other driver.Store) bool {
	o, ok := other.(*Store)
	return ok && slices.ContainsFunc(s.conn.hosts, func(host string) bool { return slices.Contains(o.conn.hosts, host) })
}

const (
	adviceExperimental = "padlock's store for MongoDB is experimental: its tests have not yet run against a MongoDB server"
	adviceAlone        = "run a replica set of three servers; one server alone is not available while it restarts"
	adviceIndex        = "documents of names that nobody uses any more stay: let a user that may create an index open the store once"
)

// Status implements driver.Reporter.
func (s *Store) Status(ctx context.Context) ([]driver.Finding, error) {
	limited, end, err := s.conn.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	var hello struct {
		SetName  string   `bson:"setName"`
		Hosts    []string `bson:"hosts"`
		Sharding string   `bson:"msg"`
	}
	admin := s.conn.client.Database("admin")
	if err := admin.RunCommand(limited, field("hello", int32(1))).Decode(&hello); err != nil {
		return nil, failure(ctx, err, false)
	}
	var build struct {
		Version string `bson:"version"`
	}
	found := []driver.Finding{{Name: "maturity", Value: "experimental", Advice: adviceExperimental}}
	version := driver.Finding{Name: "version", Value: driver.Unknown}
	if err := admin.RunCommand(limited, field("buildInfo", int32(1))).Decode(&build); err == nil && build.Version != "" {
		version.Value = build.Version
		major, _, _ := strings.Cut(build.Version, ".")
		if n, err := strconv.Atoi(major); err == nil && n < 5 && s.symfony == nil {
			version.Advice = "the store needs MongoDB 5.0 or newer"
		}
	}
	found = append(found, version)
	switch {
	case hello.Sharding == "isdbgrid":
		found = append(found, driver.Finding{Name: "member", Value: "of a sharded cluster"})
	case hello.SetName == "":
		found = append(found, driver.Finding{Name: "member", Value: "standalone", Advice: adviceAlone})
	default:
		found = append(found, driver.Finding{Name: "member", Value: "of a replica set of " + strconv.Itoa(len(hello.Hosts))})
	}
	if s.symfony == nil {
		found = append(found, s.indexFinding(limited))
	}
	return found, nil
}

func (s *Store) indexFinding(ctx context.Context) driver.Finding {
	f := driver.Finding{Name: "index", Value: driver.Unknown}
	specs, err := s.conn.locks.Indexes().ListSpecifications(ctx)
	if err != nil {
		return f
	}
	f.Value, f.Advice = "missing", adviceIndex
	for _, spec := range specs {
		if spec.Name == indexName {
			f.Value, f.Advice = "present", ""
		}
	}
	return f
}
