package redissession

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/padlock-go/padlock/internal/redisconn"
	"github.com/padlock-go/padlock/web/session/sessionstore"
	"github.com/redis/rueidis"
)

var (
	hashCommit = script("hash_commit")
	hashLoad   = script("hash_load")
	hashTouch  = script("hash_touch")
	hashDelete = script("hash_delete")
)

// Sessions keeps each session as a hash with a field for each key. A commit sends only its changes
// and the old values of the keys that it read, however large the session is.
func (r *Redis) Sessions() sessionstore.IndexedStore {
	return &hashes{sessionstore.BlobIndex(&blobs{r, r.prefix + "user:"}, ""), r}
}

type hashes struct {
	sessionstore.Index
	*Redis
}

// Traits implements sessionstore.Store.
func (h *hashes) Traits() sessionstore.Traits { return sessionstore.Traits{} }

func (h *hashes) keys(key string) []string { return []string{h.prefix + "session:" + key} }

// Load implements sessionstore.Store.
func (h *hashes) Load(ctx context.Context, key string) (sessionstore.Record, error) {
	pair, err := h.read(ctx, hashLoad, h.keys(key))
	if err != nil {
		return sessionstore.Record{}, err
	}
	ms, err := pair[0].AsInt64()
	if err != nil {
		return sessionstore.Record{}, errDamaged
	}
	fields, err := pair[1].ToArray()
	if err != nil {
		return sessionstore.Record{}, errDamaged
	}
	rec, err := record(fields)
	rec.TTL = lifetime(ms)
	return rec, err
}

var errDamaged = fmt.Errorf("%w: the value at its key was not written by this package", sessionstore.ErrRefused)

// errNewer is the error for a session that a newer padlock has stored in a format unknown here. The
// hash of such a session has a field with the name "f", which contains the number of the format.
// This version writes format 1, which has no such field.
var errNewer = fmt.Errorf("%w: a newer padlock wrote it, in a format that this one does not read", sessionstore.ErrRefused)

// record reads the fields of a hash.
func record(fields []rueidis.RedisMessage) (sessionstore.Record, error) {
	var rec sessionstore.Record
	for i := 0; i+1 < len(fields); i += 2 {
		name, err := fields[i].ToString()
		if err != nil {
			return rec, errDamaged
		}
		value, err := fields[i+1].ToString()
		if err != nil {
			return rec, errDamaged
		}
		key, ok := strings.CutPrefix(name, ":")
		switch {
		case ok:
			rec.Fields = append(rec.Fields, sessionstore.Field{Key: key, Value: []byte(value)})
		case name == "v":
			rec.Version = value
		case name == "d":
			rec.Deadline, err = parseMilli(value)
		case name == "m":
			rec.Moved, err = parseMoved(value)
		case name == "f":
			return sessionstore.Record{}, errNewer
		}
		if err != nil { // without its end, it would never end
			return sessionstore.Record{}, err
		}
	}
	slices.SortFunc(rec.Fields, func(a, b sessionstore.Field) int { return strings.Compare(a.Key, b.Key) })
	if rec.Version == "" {
		return rec, errDamaged
	}
	return rec, nil
}

// parseMilli reads what formatMilli wrote.
func parseMilli(text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	ms, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return time.Time{}, errDamaged
	}
	return time.UnixMilli(ms), nil
}

func formatMilli(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return strconv.FormatInt(t.UnixMilli(), 10)
}

// formatMoved writes 1, the time in ms since 1970, and the new key. The 1 means that the old id is
// frozen, as it always is.
func formatMoved(m sessionstore.Moved) string {
	if m.To.Text() == "" {
		return ""
	}
	return "1 " + strconv.FormatInt(m.At.UnixMilli(), 10) + " " + m.To.Text()
}

// parseMoved reads what formatMoved wrote.
func parseMoved(text string) (sessionstore.Moved, error) {
	if text == "" {
		return sessionstore.Moved{}, nil
	}
	_, rest, _ := strings.Cut(text, " ")
	at, to, _ := strings.Cut(rest, " ")
	when, err := parseMilli(at)
	if err != nil || when.IsZero() || to == "" {
		return sessionstore.Moved{}, errDamaged
	}
	return sessionstore.Moved{To: sessionstore.KeyOf(to), At: when}, nil
}

// Commit implements sessionstore.Store.
func (h *hashes) Commit(ctx context.Context, key string, c sessionstore.Change) (sessionstore.Result, error) {
	version := rand.Text() // differs even if the session was deleted and made again
	reply, err := h.write(ctx, hashCommit, h.keys(key), commitArgs(&c, version)).ToArray()
	if err != nil {
		return sessionstore.Result{}, h.failed(err)
	}
	what, err := reply[0].ToString()
	if err != nil {
		return sessionstore.Result{}, h.failed(err)
	}
	switch rest := reply[1:]; what {
	case "ok":
		return result(version, rest)
	case "none":
		return sessionstore.Result{}, sessionstore.ErrNotFound
	case "exists":
		return sessionstore.Result{}, sessionstore.ErrExists
	case "moved":
		text, err := rest[0].ToString()
		moved, damaged := parseMoved(text)
		return sessionstore.Result{}, cmp.Or[error](err, damaged, &sessionstore.MovedError{Moved: moved})
	case "conflict":
		return sessionstore.Result{}, conflict(rest)
	case "newer":
		return sessionstore.Result{}, errNewer
	case "large":
		return sessionstore.Result{}, fmt.Errorf("%w: it would have more than %d bytes", sessionstore.ErrTooLarge, c.MaxSize)
	}
	return sessionstore.Result{}, sessionstore.ErrNotNumber
}

func commitArgs(c *sessionstore.Change, version string) []string {
	args := make([]string, 0, 9+3*len(c.Unchanged)+3*len(c.Ops))
	args = append(args, flag(c.Create), version, c.Version, millis(c.TTL), formatMilli(c.Deadline), formatMoved(c.Move),
		strconv.Itoa(len(c.Unchanged)), strconv.Itoa(len(c.Ops)), strconv.Itoa(c.MaxSize))
	for _, u := range c.Unchanged {
		args = append(args, u.Key, flag(u.Absent), string(u.Value))
	}
	for _, op := range c.Ops {
		switch op.Kind {
		case sessionstore.OpPut:
			args = append(args, "put", op.Key, string(op.Value))
		case sessionstore.OpIncr:
			args = append(args, "incr", op.Key, strconv.FormatInt(op.Delta, 10))
		case sessionstore.OpTake:
			args = append(args, "take", op.Key, "")
		default:
			args = append(args, "delete", op.Key, "")
		}
	}
	return args
}

func result(version string, values []rueidis.RedisMessage) (sessionstore.Result, error) {
	res := sessionstore.Result{Version: version, Values: make([][]byte, len(values))}
	for i := range values {
		if values[i].IsNil() {
			continue
		}
		text, err := values[i].ToString()
		if err != nil {
			return res, err
		}
		res.Values[i] = []byte(text)
	}
	return res, nil
}

func conflict(keys []rueidis.RedisMessage) error {
	e := &sessionstore.ConflictError{}
	for i := range keys {
		key, err := keys[i].ToString()
		if err != nil {
			return err
		}
		e.Keys = append(e.Keys, key)
	}
	slices.Sort(e.Keys)
	e.Keys = slices.Compact(e.Keys)
	return e
}

// Touch implements sessionstore.Store.
func (h *hashes) Touch(ctx context.Context, key string, ttl time.Duration) error {
	return h.failed(h.write(ctx, hashTouch, h.keys(key), []string{millis(ttl)}).Error())
}

// Delete implements sessionstore.Store.
func (h *hashes) Delete(ctx context.Context, key string) (sessionstore.Moved, error) {
	text, err := h.write(ctx, hashDelete, h.keys(key), nil).ToString()
	switch {
	case rueidis.IsRedisNil(err):
		return sessionstore.Moved{}, nil
	case err != nil:
		return sessionstore.Moved{}, h.failed(err)
	}
	return parseMoved(text)
}

// read runs a script that changes nothing. So any error without a reply is
// sessionstore.ErrUnavailable. A nil reply is sessionstore.ErrNotFound. Any other reply is an array
// of two elements.
func (r *Redis) read(ctx context.Context, s *rueidis.Lua, keys []string) ([]rueidis.RedisMessage, error) {
	pair, err := r.repeatable(ctx, s, keys).ToArray()
	switch {
	case rueidis.IsRedisNil(err):
		return nil, sessionstore.ErrNotFound
	case err != nil:
		if err = r.failed(err); !errors.Is(err, sessionstore.ErrRefused) && !errors.Is(err, sessionstore.ErrUnavailable) {
			err = fmt.Errorf("%w: %w", sessionstore.ErrUnavailable, err)
		}
		return nil, err
	case len(pair) != 2:
		return nil, errDamaged
	}
	return pair, nil
}

// replyTime bounds the wait for a reply. Without it, the client waits for 10 s if the server is
// frozen.
const replyTime = 5 * time.Second

var errNoReply = fmt.Errorf("no reply within %v", replyTime)

// write runs a script, unless ctx is over.
func (r *Redis) write(ctx context.Context, s *rueidis.Lua, keys, args []string) rueidis.RedisResult {
	if err := ctxError(ctx); err != nil {
		return rueidis.NewErrorResult(fmt.Errorf("%w: %w", sessionstore.ErrUnavailable, err))
	}
	return r.run(ctx, s, keys, args)
}

// repeatable runs a script that changes nothing. The server, or a proxy before it, may have closed
// an idle connection, and the client may notice that only when it uses the connection. So if a
// connection breaks, the script runs again, on a new connection. The client needs a moment until it
// replaces the broken connection, so there are several tries within an eighth of a second.
func (r *Redis) repeatable(ctx context.Context, s *rueidis.Lua, keys []string) rueidis.RedisResult {
	for pause := time.Millisecond; ; pause *= 2 {
		res := r.write(ctx, s, keys, nil)
		err := res.NonRedisError()
		if err == nil || unsent(err) || errors.Is(err, errNoReply) || ctxError(ctx) != nil || pause > 64*time.Millisecond {
			return res
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return res
		}
	}
}

// run runs a script and waits for the reply for at most replyTime. If the server refuses because it
// is not the primary, run ends the connections to it, so that the next call makes a new one.
func (r *Redis) run(ctx context.Context, s *rueidis.Lua, keys, args []string) rueidis.RedisResult {
	bounded, cancel := context.WithTimeout(ctx, replyTime)
	defer cancel()
	res := s.Exec(bounded, r.client, keys, args)
	if reply, ok := rueidis.IsRedisErr(res.Error()); ok && redisconn.WrongRole(reply.Error()) {
		r.server.LeaveRefusing()
	}
	if ctxError(ctx) == nil && errors.Is(res.NonRedisError(), context.DeadlineExceeded) {
		return rueidis.NewErrorResult(errNoReply) // it is not the caller's deadline
	}
	return res
}

// ctxError returns the error of a context that has ended or whose deadline has passed. On a busy
// machine, the timer that ends a context may run after the deadline. The client compares the
// deadline with the clock, so ctxError does the same.
func ctxError(ctx context.Context) error {
	if at, ok := ctx.Deadline(); ok && ctx.Err() == nil && !time.Now().Before(at) {
		return context.DeadlineExceeded
	}
	return ctx.Err()
}

// failed wraps the error of a call. The result says whether the session may have changed.
func (r *Redis) failed(err error) error {
	if err == nil || errors.Is(err, sessionstore.ErrUnavailable) {
		return err
	}
	reply, ok := rueidis.IsRedisErr(err)
	switch {
	case ok && strings.Contains(reply.Error(), "WRONGTYPE"):
		return errDamaged
	case ok && refused(reply), !ok && unsent(err):
		return fmt.Errorf("%w: %w", sessionstore.ErrUnavailable, public(err))
	}
	return public(err) // the request may have been carried out
}
