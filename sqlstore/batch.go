package sqlstore

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/padlock-go/padlock/driver"
)

const (
	// mostExtended is how many leases one statement extends. The statement keeps the rows locked
	// until it has ended, and a hand-over of one of the names waits for it.
	mostExtended = 256

	// maxAlone is how many holds of a batch are extended at the same time, if they need a statement
	// each. A name whose row stays locked delays the others only if there are this many such names.
	maxAlone = 8
)

var _ driver.BatchExtender = (*Store)(nil)

// ExtendBatch implements driver.BatchExtender, with one statement for up to 256 exclusive holds.
// Shared holds, lost ones, and those whose row is locked by somebody else at that moment need
// statements of their own.
func (s *Store) ExtendBatch(ctx context.Context, holds []driver.Extension) ([]driver.Extended, error) {
	for i := range holds {
		h := &holds[i]
		err := driver.CheckHold(h.Name, h.Token, &s.promises)
		if err == nil && h.TTL != 0 {
			err = driver.CheckTTL("TTL", h.TTL, &s.promises)
		}
		if err != nil {
			return nil, err
		}
	}
	ctx, done, err := s.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	out := make([]driver.Extended, len(holds))
	var together, alone []int
	for i := range holds {
		if holds[i].TTL == 0 {
			alone = append(alone, i) // it is only verified
		} else {
			together = append(together, i)
		}
	}
	slices.SortFunc(together, func(i, j int) int { return strings.Compare(holds[i].Name, holds[j].Name) })
	for part := range slices.Chunk(together, mostExtended) {
		alone = append(alone, s.extendTogether(ctx, holds, part, out)...)
	}
	s.extendAlone(ctx, holds, alone, out)
	return out, nil
}

// extendTogether extends the holds whose indexes are in part, with one statement. It returns the
// indexes of those that need statements of their own.
func (s *Store) extendTogether(ctx context.Context, holds []driver.Extension, part []int, out []driver.Extended) (alone []int) {
	some := make([]driver.Extension, len(part))
	for i, at := range part {
		some[i] = holds[at]
	}
	left, err := s.rows.prolongMany(ctx, some)
	for try := 0; judge(err) == again && try < 3 && s.retryPause(ctx, try); try++ {
		left, err = s.rows.prolongMany(ctx, some)
	}
	if err != nil && judge(err) != unknown {
		return part // nothing was changed
	}
	for _, at := range part {
		ttl, ok := left[keyOf(&holds[at])]
		switch {
		case err != nil:
			out[at].Err = failure(ctx, err, true)
		case ok:
			out[at].Grant = driver.Grant{TTL: ttl}
		default:
			alone = append(alone, at)
		}
	}
	return alone
}

// extendAlone extends each of the holds whose indexes are in alone as Extend does.
func (s *Store) extendAlone(ctx context.Context, holds []driver.Extension, alone []int, out []driver.Extended) {
	var all sync.WaitGroup
	slots := make(chan struct{}, maxAlone)
	for _, at := range alone {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			h := &holds[at]
			out[at].Grant, out[at].Err = s.extendOne(ctx, h.Name, h.Token, h.TTL)
		})
	}
	all.Wait()
}

// batchStatements are the statements that extend the exclusive holds in a list. They skip the rows
// that somebody else has locked at that moment, so they wait for nobody, and two of them cannot
// wait for each other.
type batchStatements struct {
	extend string // SQLite: the part before the list
	check  string // MySQL only: reads the leases of the holds in the list
}

// A listed hold is an entry of the list, in JSON.
type listed struct {
	Name  string `json:"n"` // in hexadecimal digits
	Token string `json:"t"` // in hexadecimal digits
	TTL   int64  `json:"d"` // in microseconds
}

func newBatchStatements(d *dialect, t tables) (st batchStatements) {
	live := "reserved = 0 AND until > " + d.now
	switch d {
	case dialects[PostgreSQL]:
		// Like the other statements, this one reads the clock after it has locked the row.
		st.extend = d.bind("WITH h AS MATERIALIZED (SELECT decode(n, 'hex') AS n, decode(t, 'hex') AS t, d FROM jsonb_to_recordset(?::jsonb) AS x(n text, t text, d bigint)), " +
			"g AS MATERIALIZED (SELECT name FROM " + t.locks + " WHERE name IN (SELECT n FROM h) ORDER BY name FOR NO KEY UPDATE SKIP LOCKED) " +
			"UPDATE " + t.locks + " AS l SET version = version + 1, until = " + d.max("until", d.now+" + d") +
			" FROM g, h WHERE l.name = g.name AND n = g.name AND token = t AND " + live + " RETURNING l.name, token")
	case dialects[MySQL]:
		list := "JSON_TABLE(?, '$[*]' COLUMNS (n varchar(2048) PATH '$.n', t varchar(512) PATH '$.t', d bigint PATH '$.d')) AS h STRAIGHT_JOIN " +
			t.locks + " AS l ON l.name = UNHEX(h.n) WHERE l.token = UNHEX(h.t) AND l." + strings.Replace(live, " until", " l.until", 1)
		st.extend = "UPDATE (SELECT l.name AS n, h.d AS d FROM " + list + " FOR UPDATE SKIP LOCKED) AS g STRAIGHT_JOIN " + t.locks + " AS l ON l.name = g.n" +
			" SET l.version = l.version + 1, l.until = " + d.max("l.until", d.now+" + g.d")
		st.check = "SELECT l.name, l.token, l.until - " + d.now + " FROM " + list
	case dialects[SQLite]:
		st.extend = "UPDATE " + t.locks + " SET version = version + 1, until = " + d.max("until", d.now+" + d") +
			" FROM h WHERE name = n AND token = t AND " + live + " RETURNING name, token"
	}
	return st
}

// prolongMany extends live exclusive holds. It returns what is left of the leases that it has
// extended.
func (t *table) prolongMany(ctx context.Context, holds []driver.Extension) (left leases, err error) {
	if t.dialect == dialects[SQLite] {
		text, args := t.listOfRows(holds)
		return t.extended(ctx, holds, text, args...)
	}
	list := make([]listed, len(holds))
	for i, h := range holds {
		list[i] = listed{hex.EncodeToString([]byte(h.Name)), hex.EncodeToString([]byte(h.Token)), h.TTL.Microseconds()}
	}
	text, err := json.Marshal(list)
	if err != nil {
		return nil, err
	}
	if t.dialect == dialects[PostgreSQL] {
		return t.extended(ctx, holds, t.sql.batch.extend, string(text))
	}
	res, err := t.exec(ctx, t.sql.batch.extend, string(text))
	if err != nil {
		return nil, err
	}
	if n, err := res.RowsAffected(); err != nil || n != int64(len(holds)) {
		return t.checkMany(ctx, holds, string(text)), nil
	}
	return allOf(holds), nil
}

// leases has what is left of the leases of some holds. A token alone is not enough to tell the
// holds apart: a caller may use one token for several names.
type leases map[holdKey]time.Duration

type holdKey struct{ name, token string }

func keyOf(h *driver.Extension) holdKey { return holdKey{h.Name, h.Token} }

// allOf returns the leases if all holds are extended. A hold that is listed twice may have got the
// shorter of its two leases.
func allOf(holds []driver.Extension) leases {
	left := make(leases, len(holds))
	for i := range holds {
		key, ttl := keyOf(&holds[i]), holds[i].TTL
		if other, twice := left[key]; twice {
			ttl = min(ttl, other)
		}
		left[key] = ttl
	}
	return left
}

// extended runs a statement that returns the names and tokens of the holds that it has extended.
func (t *table) extended(ctx context.Context, holds []driver.Extension, text string, args ...any) (left leases, err error) {
	rows, err := t.query(ctx, text, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	all := allOf(holds)
	left = make(leases, len(holds))
	for rows.Next() {
		var name, token []byte
		if err := rows.Scan(&name, &token); err != nil {
			return nil, err
		}
		key := holdKey{string(name), string(token)}
		left[key] = all[key]
	}
	return left, rows.Err()
}

// checkMany is for MySQL, where an UPDATE tells how many rows it has changed, and not which ones. A
// lease that now lasts for nearly its whole TTL was extended. A lease that cannot be read counts as
// not extended.
func (t *table) checkMany(ctx context.Context, holds []driver.Extension, list string) (left leases) {
	rows, err := t.query(ctx, t.sql.batch.check, list)
	if err != nil {
		return nil
	}
	defer rows.Close()
	all := allOf(holds)
	left = make(leases, len(holds))
	for rows.Next() {
		var name, token []byte
		var rest int64
		if err := rows.Scan(&name, &token, &rest); err != nil {
			break
		}
		key := holdKey{string(name), string(token)}
		ttl := all[key]
		if lasts := min(ttl, time.Duration(rest)*time.Microsecond); lasts >= ttl-ttl/20 {
			left[key] = lasts
		}
	}
	return left
}

// listOfRows makes SQLite's statement. The list has a number of entries that is a power of two, so
// that few different statements are prepared. The last ones stand for no hold.
func (t *table) listOfRows(holds []driver.Extension) (text string, args []any) {
	n := 1
	for n < len(holds) {
		n *= 2
	}
	for _, h := range holds {
		args = append(args, []byte(h.Name), []byte(h.Token), h.TTL.Microseconds())
	}
	for range n - len(holds) {
		args = append(args, []byte{}, []byte{}, 0)
	}
	return "WITH h (n, t, d) AS (VALUES " + strings.Repeat("(?, ?, ?), ", n-1) + "(?, ?, ?)) " + t.sql.batch.extend, args
}
