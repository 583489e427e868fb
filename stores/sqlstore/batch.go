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
	"github.com/padlock-go/padlock/driver/fast"
	"github.com/padlock-go/padlock/stores/sqlstore/internal/dbms"
)

const (
	// mostExtended is the maximum number of leases that one statement extends. The statement locks
	// their rows until it has ended. A hand-over of one of these names has to wait for the
	// statement.
	mostExtended = 256

	// maxAlone is how many holds of a batch are extended at the same time, each with a statement of
	// its own. Such a statement waits if somebody has locked its row. The rest of the batch waits
	// only if all maxAlone statements do.
	maxAlone = 8
)

// ExtendBatch implements fast.BatchExtender. It extends up to 256 exclusive holds with one
// statement. A hold gets a statement of its own if it is shared or lost, or if somebody else has
// locked its row at that moment.
func (s *Store) ExtendBatch(ctx context.Context, holds []fast.Extension) ([]fast.Extended, error) {
	for i := range holds {
		h := &holds[i]
		if err := driver.CheckExtend(h.Name, h.Token.Text(), h.TTL, &s.promises); err != nil {
			return nil, err
		}
	}
	ctx, done, err := dbms.Begin(ctx, &s.calls, s.check)
	if err != nil {
		return nil, err
	}
	defer done()
	out := make([]fast.Extended, len(holds))
	var together, alone []int
	for i := range holds {
		if holds[i].TTL == 0 {
			alone = append(alone, i) // a TTL of 0 only asks whether the token still has the hold
		} else {
			together = append(together, i)
		}
	}
	for part := range slices.Chunk(together, mostExtended) {
		alone = append(alone, s.extendTogether(ctx, holds, part, out)...)
	}
	s.extendAlone(ctx, holds, alone, out)
	return out, nil
}

// extendTogether extends some of the holds with one statement. The argument indexes says which
// ones. The result contains the indexes of the holds that need statements of their own.
func (s *Store) extendTogether(ctx context.Context, holds []fast.Extension, indexes []int, out []fast.Extended) (alone []int) {
	some := make([]fast.Extension, len(indexes))
	for i, at := range indexes {
		some[i] = holds[at]
	}
	left, err := s.rows.prolongMany(ctx, some)
	for try := 0; dbms.Judge(err) == dbms.Again && try < 3 && dbms.Pause(ctx, try); try++ {
		left, err = s.rows.prolongMany(ctx, some)
	}
	if err != nil && dbms.Judge(err) != dbms.Unknown {
		return indexes // nothing was changed
	}
	for _, at := range indexes {
		ttl, ok := left[keyOf(&holds[at])]
		switch {
		case err != nil:
			out[at].Err = dbms.Failure(ctx, err, true)
		case ok:
			out[at].Grant = driver.Grant{TTL: ttl}
		default:
			alone = append(alone, at)
		}
	}
	return alone
}

// extendAlone extends some of the holds, each with a statement of its own, as Extend does. The
// argument indexes says which ones.
func (s *Store) extendAlone(ctx context.Context, holds []fast.Extension, indexes []int, out []fast.Extended) {
	var all sync.WaitGroup
	slots := make(chan struct{}, maxAlone)
	for _, at := range indexes {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			h := &holds[at]
			out[at].Grant, out[at].Err = s.extendOne(ctx, h.Name, h.Token.Text(), h.TTL)
		})
	}
	all.Wait()
}

// A jsonHold is the entry of one hold in a list in JSON. The statement that extends many holds gets
// this list as its only parameter.
type jsonHold struct {
	Name  string `json:"n"` // in hexadecimal digits
	Token string `json:"t"` // in hexadecimal digits
	TTL   int64  `json:"d"` // in microseconds
}

// newBatchStatement returns the statement that extends the exclusive holds in a list; for SQLite, the
// part behind the list. The statement skips the rows that somebody else has locked at that moment.
// So it waits for nobody, and two such statements cannot block each other.
func newBatchStatement(d *dialect, t tables) string {
	live := "reserved = 0 AND until > " + d.now
	switch d {
	case dialects[PostgreSQL]:
		// Like the other statements, this one reads the clock after it has locked the row.
		return d.bind("WITH h AS MATERIALIZED (SELECT decode(n, 'hex') AS n, decode(t, 'hex') AS t, d FROM jsonb_to_recordset(?::jsonb) AS x(n text, t text, d bigint)), " +
			"g AS MATERIALIZED (SELECT name FROM " + t.locks + " WHERE name IN (SELECT n FROM h) ORDER BY name FOR NO KEY UPDATE SKIP LOCKED) " +
			"UPDATE " + t.locks + " AS l SET version = version + 1, until = " + d.max("until", d.now+" + d") +
			" FROM g, h WHERE l.name = g.name AND n = g.name AND token = t AND " + live + " RETURNING l.name, token")
	case dialects[MySQL]:
		list := "JSON_TABLE(?, '$[*]' COLUMNS (n varchar(2048) PATH '$.n', t varchar(512) PATH '$.t', d bigint PATH '$.d')) AS h STRAIGHT_JOIN " +
			t.locks + " AS l ON l.name = UNHEX(h.n) WHERE l.token = UNHEX(h.t) AND l." + strings.Replace(live, " until", " l.until", 1)
		return "UPDATE (SELECT l.name AS n, h.d AS d FROM " + list + " FOR UPDATE SKIP LOCKED) AS g STRAIGHT_JOIN " + t.locks + " AS l ON l.name = g.n" +
			" SET l.version = l.version + 1, l.until = " + d.max("l.until", d.now+" + g.d")
	}
	return "UPDATE " + t.locks + " SET version = version + 1, until = " + d.max("until", d.now+" + d") +
		" FROM h WHERE name = n AND token = t AND " + live + " RETURNING name, token"
}

// prolongMany extends live exclusive holds. For each lease that it has extended, it returns how
// long the lease still lasts. MySQL tells only how many rows the statement has changed. If it was
// not all of them, no lease counts as extended.
func (t *table) prolongMany(ctx context.Context, holds []fast.Extension) (left leases, err error) {
	if t.dialect == dialects[SQLite] {
		text, args := t.listOfRows(holds)
		return t.runExtend(ctx, holds, text, args...)
	}
	list := make([]jsonHold, len(holds))
	for i, h := range holds {
		list[i] = jsonHold{hex.EncodeToString([]byte(h.Name)), hex.EncodeToString([]byte(h.Token.Text())), h.TTL.Microseconds()}
	}
	text, err := json.Marshal(list)
	if err != nil {
		return nil, err
	}
	if t.dialect == dialects[PostgreSQL] {
		return t.runExtend(ctx, holds, t.sql.batch, string(text))
	}
	res, err := t.exec(ctx, t.sql.batch, string(text))
	if err != nil {
		return nil, err
	}
	if n, err := res.RowsAffected(); err != nil || n != int64(len(holds)) {
		return nil, nil
	}
	return allOf(holds), nil
}

// leases contains how long the leases of some holds still last. The key of an entry is the name and
// the token of a hold, because a caller may use one token for several names.
type leases map[holdKey]time.Duration

type holdKey struct{ name, token string }

func keyOf(h *fast.Extension) holdKey { return holdKey{h.Name, h.Token.Text()} }

// allOf returns the new leases of the holds after a statement has extended all of them. Each lease
// lasts for the TTL of its hold. If a hold is in the list twice, with two TTLs, allOf returns the
// shorter one, because the statement may have used either.
func allOf(holds []fast.Extension) leases {
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

// runExtend runs a statement that extends holds, and returns the leases of the extended holds. The
// statement must return one row for each hold that it has extended, with the hold's name and token.
func (t *table) runExtend(ctx context.Context, holds []fast.Extension, text string, args ...any) (left leases, err error) {
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

// listOfRows makes the statement for SQLite. The text of the statement contains one row for each
// hold. To keep the number of different texts small, listOfRows adds empty rows until the number of
// rows is a power of two. An empty row matches no hold.
func (t *table) listOfRows(holds []fast.Extension) (text string, args []any) {
	n := 1
	for n < len(holds) {
		n *= 2
	}
	for _, h := range holds {
		args = append(args, []byte(h.Name), []byte(h.Token.Text()), h.TTL.Microseconds())
	}
	for range n - len(holds) {
		args = append(args, []byte{}, []byte{}, 0)
	}
	return "WITH h (n, t, d) AS (VALUES " + strings.Repeat("(?, ?, ?), ", n-1) + "(?, ?, ?)) " + t.sql.batch, args
}
