package padlockhttp

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"mime"
	"mime/multipart"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/padlock-go/padlock"
)

const (
	// DefaultKeepFor is how long Idempotency keeps an answer unless KeepFor says otherwise.
	DefaultKeepFor = 24 * time.Hour
	// DefaultMaxBytes is the longest body of a request, and the longest body of an answer that is
	// kept, unless Idempotency.MaxBytes says otherwise.
	DefaultMaxBytes = 1 << 20
	// MaxKey is the maximum length of an Idempotency-Key.
	MaxKey = 255
)

// The beginnings of the names of locks and of the keys of answers. They differ, because both may be
// in one Redis, where a name is a key.
const (
	lockPrefix   = "idempotency:"
	answerPrefix = "idempotency-answer:"
)

const (
	keepWithin = 5 * time.Second       // how long a request waits at most until its answer is kept
	keepAgain  = 50 * time.Millisecond // the pause after a try that failed
)

// Idempotency is a middleware for the header Idempotency-Key, as
// draft-ietf-httpapi-idempotency-key-header describes it. A client that repeats a POST or a PATCH
// with the same key gets the answer of the first request, with the header Idempotent-Replayed, and
// the handler does not run again. Requests with other methods pass. The answers of the middleware
// are:
//
//	400 Bad Request           the header is malformed, or it is missing and Required is set
//	409 Conflict              a request with this key is at work; the header Retry-After is set
//	410 Gone                  the request was carried out; its answer was cut, or too large to keep
//	413 Content Too Large     the body of the request is longer than MaxBytes
//	422 Unprocessable Content the key was used for another request before
//	503 Service Unavailable   the lock or the kept answer cannot be reached; the handler did not run
//
// The key may be a quoted string, as the draft has it, or the same text without quotes.
//
// The answer goes to the client when it is kept. But an answer that the handler flushes, and one
// that is longer than MaxBytes, goes to the client at once. If the process dies between the work
// and the moment at which the answer is kept, or Results fails for 5 seconds, a repeat runs the
// handler again. If that must not be, write the key ([KeyOf]) in the same transaction as the work.
//
// The work ends with the client, unless the handler that Wrap returns gets the request
// r.WithContext(context.WithoutCancel(r.Context())). The context of the work still ends when the
// lock is lost.
//
// If the context of the request ends during the work, because the client has gone or the lock was
// lost, only a success is kept: a repeat runs the handler again after every other answer. The same
// holds if a OneAtATime inside has lost its lock. If the handler has flushed such a success, its
// body may be cut, so a repeat gets 410. After a panic, such as panic(http.ErrAbortHandler),
// nothing is kept.
//
// So a handler must write its status after its work, even if the client has gone. If it writes
// nothing, the answer counts as an error of the server. If it writes 200 before the work is done,
// that answer is kept even if the work fails.
//
// The handler gets the header Accept-Encoding: identity, because a repeat may come from a client
// that reads other encodings. A layer that compresses belongs outside of Idempotency.
//
// Set the fields before the first use. Answers are kept as they were sent, cookies included, but
// without trailers. Trailers reach the first client only if the handler flushes the answer and then
// sets them.
type Idempotency struct {
	// Locker takes the locks. It must not be nil.
	Locker *padlock.Locker

	// Results keeps the answers. It must not be nil.
	Results Results

	// Scope returns to whom the keys of a request belong, such as the number of the user who is
	// logged in. A client that knows or guesses a key gets the answer kept for it, but only within
	// its own scope. Requests for which Scope returns "" share one scope. It must not be nil.
	Scope func(*http.Request) string

	// KeepFor is how long answers are kept; 0 means DefaultKeepFor.
	KeepFor time.Duration

	// Required refuses a POST or PATCH without the header.
	Required bool

	// MaxBytes limits the bodies of requests and of kept answers; 0 means DefaultMaxBytes.
	MaxBytes int

	// Keep reports whether an answer with this status is kept. If it returns false, a repeat runs
	// the handler again. If Keep is nil, answers below 500 are kept, except 401, 403, 408, 425 and
	// 429, which refuse a request before its work. An answer of 400 and above with the header
	// Retry-After is never kept, because the client shall come again. One is the 409 of a
	// OneAtATime inside.
	Keep func(status int) bool

	// OnError gets the errors of Results, if it is not nil.
	OnError func(r *http.Request, err error)

	// Options are those of the lock. Without padlock.Wait among them, a repeat does not wait for
	// the first request; see OneAtATime.Options.
	Options []padlock.Option
}

// Wrap returns a handler that calls next once for each key. It panics if a field is missing, or next
// is nil.
func (i Idempotency) Wrap(next http.Handler) http.Handler {
	if i.Locker == nil || i.Results == nil || i.Scope == nil || next == nil {
		panic("padlockhttp: Idempotency needs a Locker, Results, a Scope and a handler")
	}
	if i.KeepFor == 0 {
		i.KeepFor = DefaultKeepFor
	}
	if i.MaxBytes == 0 {
		i.MaxBytes = DefaultMaxBytes
	}
	if i.Keep == nil {
		i.Keep = keepByDefault
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost && r.Method != http.MethodPatch {
			next.ServeHTTP(w, r)
			return
		}
		values := r.Header.Values("Idempotency-Key")
		if len(values) == 0 && !i.Required {
			next.ServeHTTP(w, r)
			return
		}
		key, p := parseKey(values)
		if p != nil {
			p.write(w)
			return
		}
		print, p := i.fingerprint(r)
		if p != nil {
			p.write(w)
			return
		}
		i.serve(w, r, next, i.hash(r, key), print)
	})
}

// keepByDefault is Keep if that is nil.
func keepByDefault(status int) bool {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return false
	}
	return status < 500
}

// serve replies with the answer that is kept at key, or runs the handler under the lock of the key.
func (i Idempotency) serve(w http.ResponseWriter, r *http.Request, next http.Handler, key string, print prints) {
	r = withWaitEnd(r)
	lock, err := acquire(r, i.Locker, lockPrefix+key, i.Options)
	if err != nil {
		// The request at work may have kept its answer already, or may itself be a repeat.
		if !errors.Is(err, padlock.ErrHeld) || !i.replay(w, r, key, print) {
			refuseOutstanding(w, err)
		}
		return
	}
	defer lock.Release() // even if the handler panics
	if i.replay(w, r, key, print) {
		return
	}
	ctx, cancel := lock.Join(r.Context())
	defer cancel()
	rec := newRecorder(w, i.MaxBytes)
	lost := new(atomic.Bool) // a OneAtATime inside has lost its lock
	inner := r.WithContext(context.WithValue(ctx, lossKey{}, lost))
	inner.Header = r.Header.Clone()
	inner.Header.Set("Accept-Encoding", "identity") // a repeat may come from a client that cannot read gzip
	next.ServeHTTP(rec, inner)
	if over := ctx.Err() != nil || lock.Context().Err() != nil; over || lost.Load() {
		if rec.status == 0 {
			refuseLost(rec)
		}
		if rec.status >= 400 {
			rec.send()
			return
		}
		rec.cut = rec.sent
	}
	if rec.status == 0 {
		rec.WriteHeader(http.StatusOK)
	}
	comeAgain := rec.status >= 400 && rec.header.Get("Retry-After") != ""
	if i.Keep(rec.status) && !comeAgain && !rec.hijacked {
		i.keep(w, r, key, rec, print)
	}
	rec.send()
}

// keep keeps the answer. It tries again while Results fails: a Redis that restarts must not make a
// repeat run the handler. If another request has kept an answer meanwhile, because this one has
// lost its lock, the client gets that answer, as all other clients do.
func (i Idempotency) keep(w http.ResponseWriter, r *http.Request, key string, rec *recorder, print prints) {
	// The work is done, so its answer is kept even if the client has gone.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), keepWithin)
	defer cancel()
	data, err := rec.kept(print).encode()
	if err != nil {
		i.report(r, err)
		return
	}
	done, present, err := i.Results.Swap(ctx, answerPrefix+key, nil, data, i.KeepFor)
	for err != nil && pause(ctx, keepAgain) {
		done, present, err = i.Results.Swap(ctx, answerPrefix+key, nil, data, i.KeepFor)
	}
	switch {
	case err != nil: // the client may still get the answer, so it gets the true one
		i.report(r, fmt.Errorf("padlockhttp: the answer is not kept, a repeat may run again: %w", err))
	case present != nil && bytes.Equal(present.Data, data): // an earlier try kept it, and its reply was lost
	case !done && !rec.sent && present != nil:
		if first, err := decode(present.Data); err == nil && print.of(first) {
			rec.drop()
			first.replay(w)
		}
	}
}

// pause waits for d. It returns false if ctx has ended.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}

// replay replies with the kept answer, if there is one. It also replies if it cannot find out.
func (i Idempotency) replay(w http.ResponseWriter, r *http.Request, key string, print prints) bool {
	kept, err := load(r.Context(), i.Results, answerPrefix+key)
	switch {
	case err != nil:
		i.report(r, err)
		problem{Status: http.StatusServiceUnavailable, retry: time.Second,
			Detail: "The server cannot look for the answer to an earlier request with this Idempotency-Key. Nothing was done. Repeat this request later."}.write(w)
	case kept == nil:
		return false
	case !print.of(kept):
		problem{Status: http.StatusUnprocessableEntity, Title: "Idempotency-Key is already used",
			Detail: "The Idempotency-Key was used for another request before. Make a new key for each piece of work."}.write(w)
	default:
		kept.replay(w)
	}
	return true
}

func (i Idempotency) report(r *http.Request, err error) {
	if i.OnError != nil {
		i.OnError(r, err)
	}
}

// refuseOutstanding is Refuse with the words of the draft.
func refuseOutstanding(w http.ResponseWriter, err error) {
	if !errors.Is(err, padlock.ErrHeld) {
		Refuse(w, err)
		return
	}
	problem{Status: http.StatusConflict, Title: "A request is outstanding for this Idempotency-Key", retry: time.Second,
		Detail: "A request with the same Idempotency-Key is at work. Repeat this request later."}.write(w)
}

// hash returns what stands for a key of the client in the names of locks and answers. Scopes have
// any length, and the names of locks are shown in lists.
func (i Idempotency) hash(r *http.Request, key string) string {
	scope := i.Scope(r)
	sum := sha256.Sum256(fmt.Appendf(nil, "%d:%s%s", len(scope), scope, key))
	return hex.EncodeToString(sum[:])
}

// prints tell two requests apart.
type prints struct {
	body string // a hash of method, URL and body
	form string // of a form in parts: a hash of the same without the boundary, which browsers choose anew for each request
}

// of reports whether the answer belongs to the request. Older versions keep no print of the form.
func (p prints) of(k *kept) bool { return k.Print == p.body || p.form != "" && k.Form == p.form }

// formPrint returns the print of a form in parts. For other bodies it returns "".
func formPrint(r *http.Request, body []byte) string {
	kind, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || kind != "multipart/form-data" {
		return ""
	}
	h := sha256.New()
	fmt.Fprintf(h, "%s %s\n", r.Method, r.URL.RequestURI())
	for parts := multipart.NewReader(bytes.NewReader(body), params["boundary"]); ; {
		part, err := parts.NextRawPart()
		if err == io.EOF {
			return hex.EncodeToString(h.Sum(nil))
		}
		if err != nil {
			return ""
		}
		content, err := io.ReadAll(part)
		if err != nil {
			return ""
		}
		fmt.Fprintf(h, "%q %d %s", part.Header, len(content), content)
	}
}

// fingerprint hashes the request. The handler can read the body again.
func (i Idempotency) fingerprint(r *http.Request) (p prints, refused *problem) {
	h := sha256.New()
	fmt.Fprintf(h, "%s %s\n", r.Method, r.URL.RequestURI())
	if r.Body != nil {
		limit := min(int64(i.MaxBytes), math.MaxInt64-1)
		body, err := io.ReadAll(io.LimitReader(r.Body, limit+1))
		if err != nil {
			return p, &problem{Status: http.StatusBadRequest, Detail: "The body of the request cannot be read."}
		}
		if len(body) > i.MaxBytes {
			return p, &problem{Status: http.StatusRequestEntityTooLarge, Detail: fmt.Sprintf("The body of a request with an Idempotency-Key has at most %d bytes.", i.MaxBytes)}
		}
		r.Body = struct {
			io.Reader
			io.Closer
		}{bytes.NewReader(body), r.Body}
		h.Write(body)
		p.form = formPrint(r, body)
	}
	p.body = hex.EncodeToString(h.Sum(nil))
	return p, nil
}

// KeyOf returns the Idempotency-Key of a request, without quotes, as Idempotency compares it within
// a scope, or "" if it is missing or malformed. A handler writes it in the same transaction as its
// work.
func KeyOf(r *http.Request) string {
	key, _ := parseKey(r.Header.Values("Idempotency-Key"))
	return key
}

// parseKey reads the values of the header: one quoted string, or one bare text.
func parseKey(values []string) (string, *problem) {
	malformed := func(why string) (string, *problem) {
		return "", &problem{Status: http.StatusBadRequest, Title: "Idempotency-Key is malformed", Detail: why}
	}
	if len(values) == 0 {
		return "", &problem{Status: http.StatusBadRequest, Title: "Idempotency-Key is missing",
			Detail: "This request needs the header Idempotency-Key, so that a repeat does no harm."}
	}
	key := strings.TrimSpace(values[0])
	if len(values) > 1 {
		return malformed("The request has several keys.")
	}
	if quoted, ok := strings.CutPrefix(key, `"`); ok {
		if key, ok = unquote(quoted); !ok {
			return malformed("The key is no quoted string.")
		}
	} else if strings.ContainsAny(key, "\" ,;") {
		return malformed("A key with such characters needs quotes.")
	}
	if key == "" || len(key) > MaxKey {
		return malformed(fmt.Sprintf("A key has 1 to %d characters.", MaxKey))
	}
	if strings.ContainsFunc(key, func(c rune) bool { return c < ' ' || c > '~' }) {
		return malformed("A key is made of printable ASCII characters.")
	}
	return key, nil
}

// unquote reads a string of RFC 9651 after its first quote. Parameters that follow are ignored.
func unquote(s string) (string, bool) {
	var key strings.Builder
	for n := 0; n < len(s); n++ {
		switch c := s[n]; {
		case c == '"':
			rest := strings.TrimSpace(s[n+1:])
			return key.String(), rest == "" || rest[0] == ';'
		case c == '\\':
			if n++; n == len(s) || s[n] != '"' && s[n] != '\\' {
				return "", false
			}
			key.WriteByte(s[n])
		default:
			key.WriteByte(c)
		}
	}
	return "", false
}
