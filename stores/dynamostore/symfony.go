package dynamostore

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit"
	"github.com/padlock-go/padlock/storekit/register"
)

// A symfony is a register in the table of PHP's Symfony, as the DynamoDbStore of version 7.4 makes
// it. An item has these attributes:
//
//	key_id           string, the partition key: the SHA-256 of the name, in hexadecimal digits
//	key_token        string, what PHP knows its own lock by; "padlock" if padlock has the lock
//	key_expiration   when the lock ends, in seconds since 1970, with a fraction; 0 if it is free
//	version, record  as in a table of padlock's own; only if padlock has written last
//	name             the name, escaped; only if padlock has written last
//
// PHP replaces an item as a whole when it takes or renews a lock, and deletes it when it releases
// one. Before the fix symfony/symfony#65676 of 2026, it deletes the item of any holder, with
// everything that padlock knows of the name. So an attribute version shows that the record counts:
//
//	item                what the register returns
//	none                no value
//	with a version      the record
//	without a version   one exclusive hold until key_expiration
//
// PHP sets and judges key_expiration by the clock of its machine. That clock may differ by Skew
// from those of the service: for padlock, a lock of PHP's ends that much later, and a holder of
// padlock stops that much before key_expiration. The fences of a record are gone after PHP has had
// the lock, so the store has none.
type symfony struct {
	*table
	skew time.Duration
}

const (
	keyID      = "key_id"
	keyToken   = "key_token"
	keyExpires = "key_expiration"
	ours       = "padlock"  // as key_token; PHP's tokens are 44 characters long
	free       = "0.000000" // as key_expiration
)

// foreign begins the version of an item that PHP has written, and the token of PHP's hold in a
// record. The rest is key_expiration and key_token.
const foreign = "symfony "

// shared makes the register of the layout.
func (t *table) shared(o *register.Options) (*symfony, error) {
	if o.Prefix != "" {
		return nil, storekit.Invalidf("layout=symfony: PHP knows no prefix; leave it out")
	}
	o.Keys, o.MaxKey, o.NoFences = nil, 0, true
	o.Notes = append(o.Notes, "The locks are shared with PHP's Symfony, which judges leases by the clock of its machine: that clock must not differ by more than "+o.Clock.Skew.String()+" from those of the service, or two programs can have one lock.",
		"Symfony must have the fix symfony/symfony#65676; before it, PHP's release deletes any holder's lock.",
		"There are no fences, since PHP deletes the item that it releases.")
	return &symfony{t, o.Clock.Skew}, nil
}

// idOf returns the key of a name. The name "" is that of no lock.
func idOf(name string) string {
	if name == "" {
		return ownKey
	}
	sum := sha256.Sum256([]byte(name))
	return hex.EncodeToString(sum[:])
}

// Get reads an item, and the Date of the reply.
func (s *symfony) Get(ctx context.Context, name string) (register.Value, error) {
	a, now, err := s.read(ctx, "GetItem", operation{TableName: s.name, Key: item{keyID: {S: idOf(name)}}, ConsistentRead: true})
	if err != nil {
		return register.Value{}, err
	}
	return s.valueOf(a.Item, now)
}

func (s *symfony) valueOf(it item, now time.Time) (register.Value, error) {
	if len(it) == 0 || it["version"].S != "" {
		return valueOf(it, now), nil
	}
	end, err := endOf(it)
	if err != nil {
		return register.Value{}, err
	}
	v := register.Value{Now: now, Version: foreign + it[keyExpires].N + " " + it[keyToken].S}
	fence := fenceOf(it[keyToken].S)
	v.Data, err = json.Marshal(record{Format: 1, Nonce: v.Version, Fence: fence, Holds: []hold{{
		Token: v.Version, Fence: fence, Until: end.Add(s.skew).UnixMicro(), Foreign: true,
	}}})
	return v, err
}

// fenceOf returns the number by which Break knows a lock of PHP's again, renewed or not. It is
// above 0, since a name with the fence 0 has no holds that Break could end, and below the fences
// of padlock, which are microseconds since 1970.
func fenceOf(token string) uint64 {
	sum := sha256.Sum256([]byte(token))
	return 1 + uint64(binary.BigEndian.Uint32(sum[:]))
}

// endOf returns the end of a lock of PHP's, rounded up.
func endOf(it item) (time.Time, error) {
	seconds, err := strconv.ParseFloat(it[keyExpires].N, 64)
	if err != nil || math.Abs(seconds) > 1e12 || it[keyToken].S == "" {
		return time.Time{}, fmt.Errorf("%w: an item of the table is no lock of Symfony's: %s or %s is missing", driver.ErrUnavailable, keyToken, keyExpires)
	}
	return time.UnixMicro(int64(math.Ceil(seconds * 1e6))), nil
}

// record is as much of a record of package register as this layout needs. Its times are
// microseconds since 1970.
type record struct {
	Format int    `json:"padlock"`
	Nonce  string `json:"nonce"`
	Fence  uint64 `json:"fence"`
	Holds  []hold `json:"holds,omitempty"`
	Cool   int64  `json:"cool,omitempty"`
}

type hold struct {
	Token   string `json:"token"`
	Fence   uint64 `json:"fence"`
	Since   int64  `json:"since"`
	Until   int64  `json:"until"`
	Foreign bool   `json:"foreign,omitempty"`
}

// lockOf returns the attributes for PHP. To clean up, package register writes a record although
// PHP's lock stays as it is.
func lockOf(data []byte) (token, expires string, err error) {
	var r record
	if err := json.Unmarshal(data, &r); err != nil {
		return "", "", err
	}
	end := r.Cool
	for _, h := range r.Holds {
		if expires, token, php := cutForeign(h.Token); php {
			return token, expires, nil
		}
		end = max(end, h.Until)
	}
	return ours, fmt.Sprintf("%d.%06d", end/1e6, end%1e6), nil
}

// cutForeign takes the version of an item of PHP's apart.
func cutForeign(version string) (expires, token string, php bool) {
	rest, php := strings.CutPrefix(version, foreign)
	expires, token, _ = strings.Cut(rest, " ")
	return expires, token, php
}

// Put writes an item if it still has the version. A refusal has the item as it is now.
//
// A new item is made free, and the lock is written over that version. A lock on the condition that
// there is no item could arrive late, after PHP has deleted a later item, and would then keep
// everybody out, for nobody.
func (s *symfony) Put(ctx context.Context, name string, data []byte, version string) error {
	token, expires, err := lockOf(data)
	if err != nil {
		return err
	}
	if version == "" && expires != free {
		empty, err := json.Marshal(record{Format: 1, Nonce: rand.Text()})
		if err != nil {
			return err
		}
		version = rand.Text()
		if err := s.write(ctx, name, empty, item{keyToken: {S: ours}, keyExpires: {N: free}, "version": {S: version}}, ""); err != nil {
			return err
		}
	}
	return s.write(ctx, name, data, item{keyToken: {S: token}, keyExpires: {N: expires}, "version": {S: rand.Text()}}, version)
}

// write sends a PutItem of the attributes and the data, on the condition that the item has the
// version.
func (s *symfony) write(ctx context.Context, name string, data []byte, it item, version string) error {
	it[keyID], it["record"] = attribute{S: idOf(name)}, attribute{S: string(data)}
	op := operation{
		TableName:                s.name,
		Item:                     it,
		ConditionExpression:      "attribute_not_exists(#key)",
		ExpressionAttributeNames: map[string]string{"#key": keyID},
	}
	if name != "" {
		op.Item["name"] = attribute{S: storekit.ObjectKeys.Escape(name)}
	}
	switch expires, token, php := cutForeign(version); {
	case php:
		op.ConditionExpression = "attribute_not_exists(#version) AND #token = :token AND #expires_at = :expires_at"
		op.ExpressionAttributeNames = map[string]string{"#version": "version", "#token": keyToken, "#expires_at": keyExpires}
		op.ExpressionAttributeValues = item{":token": {S: token}, ":expires_at": {N: expires}}
	case version != "":
		op.ConditionExpression = "#version = :version"
		op.ExpressionAttributeNames = map[string]string{"#version": "version"}
		op.ExpressionAttributeValues = item{":version": {S: version}}
	}
	return s.put(ctx, op, s.valueOf)
}

// Names reads the whole table. An item that PHP has written last has no name.
func (s *symfony) Names(ctx context.Context, prefix string) (names []string, err error) {
	unknown := 0
	err = s.scan(ctx, operation{TableName: s.name, ConsistentRead: true}, func(it item, now time.Time) {
		name, known := storekit.ObjectKeys.Unescape(it["name"].S)
		end, err := endOf(it)
		switch {
		case it["version"].S == "" && err == nil && end.Add(s.skew).After(now):
			unknown++
		case it["version"].S != "" && known && strings.HasPrefix(name, prefix):
			names = append(names, name)
		}
	})
	if err == nil && unknown > 0 {
		err = fmt.Errorf("%w: PHP has %d locks whose names the table has as hashes", errors.ErrUnsupported, unknown)
	}
	return names, err
}

var _ interface {
	register.Register
	register.Lister
} = (*symfony)(nil)
