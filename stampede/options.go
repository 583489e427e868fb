package stampede

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// Option says how Remember and File work. Given to New it is the default.
type Option func(*settings)

type settings struct {
	prefix       string
	lease        time.Duration
	stale        time.Duration
	staleIfError time.Duration
	early        float64
	jitter       float64
	errorTTL     time.Duration
	timeLimit    time.Duration
	waitAtMost   time.Duration
	localFor     time.Duration
	strict       bool
	codec        Codec
	maxBehind    int
	onError      func(key string, err error)
}

// Prefix is put before each key to make the name of its value and of its lock;
// "stampede:" unless set. Two Caches on the same Values serve each other's
// values unless their prefixes differ. A prefix longer than about 1,000 bytes
// is cut in the names of locks, as long keys are.
func Prefix(p string) Option { return func(s *settings) { s.prefix = p } }

// Lease is the length of the worker's lease, 2 s unless set. It is renewed
// while the function runs; a worker that dies is replaced after it.
func Lease(d time.Duration) Option { return func(s *settings) { s.lease = d } }

// Stale serves a value up to d older than fresh, at once, while one caller
// makes a new one in the background (stale-while-revalidate).
func Stale(d time.Duration) Option { return func(s *settings) { s.stale = d } }

// StaleIfError serves a value up to d older than fresh when the function
// fails. Its first failure makes callers wait for it. For ErrorTTL after that
// the function is not called, and the stale value is served at once; then the
// function is tried again in the background.
func StaleIfError(d time.Duration) Option { return func(s *settings) { s.staleIfError = d } }

// Early renews a fresh value before its time (probabilistic early refresh): a
// caller begins to renew it in the background, with a chance that grows towards
// the end and with the time that the function takes. beta 1 is usual, more is
// earlier, 0 is off. The refresh tries the lock and does not wait for it, so
// there is still one worker. (Vattani, Chierichetti, Lowenstein: Optimal
// Probabilistic Cache Stampede Prevention, 2015.)
func Early(beta float64) Option { return func(s *settings) { s.early = beta } }

// Jitter spreads the time for which a value is fresh by up to the given share
// of it, 0 to 1, to either side, so that values made together do not go stale
// together.
func Jitter(share float64) Option { return func(s *settings) { s.jitter = min(max(share, 0), 1) } }

// ErrorTTL is how long after a failure the error is returned without calling
// the function again; 1 s unless set, 0 turns it off. A caller of another
// process gets a *RemoteError: the text of the error is kept in Values for that
// time. Only a Memory, which no other process sees, keeps no errors.
func ErrorTTL(d time.Duration) Option { return func(s *settings) { s.errorTTL = d } }

// TimeLimit bounds one run of the function, 5 minutes unless set; 0 is no
// limit. When it is over the function's context ends, and the callers get an
// error that answers errors.Is for ErrTimeLimit. A function that ignores the
// end of its context for a Lease longer is given up: its lock is released and
// its value is dropped, so it may still run when the next one begins.
func TimeLimit(d time.Duration) Option { return func(s *settings) { s.timeLimit = d } }

// WaitAtMost bounds how long a caller waits for a value that is being made.
// Then the caller is served a stale one, if there is one, or gets an error that
// answers errors.Is for padlock.ErrHeld; the function goes on, even if nobody
// else waits for it, and its value is kept. Without WaitAtMost the caller's
// context alone decides.
func WaitAtMost(d time.Duration) Option { return func(s *settings) { s.waitAtMost = d } }

// Local keeps a value in this process too, for at most d, so that a hot key
// does not ask Values each time; of 10,000 keys at most. An Invalidate by
// another process is noticed that much later.
func Local(d time.Duration) Option { return func(s *settings) { s.localFor = d } }

// Strict makes an error of Values or of the lock store an error of Remember.
// Without it the function is called then, by one caller of this process at a
// time, since a cache that is down should not take the site down.
func Strict() Option { return func(s *settings) { s.strict = true } }

// WithCodec sets how values become bytes; JSON unless set. Values of type
// []byte and string are kept as they are; a nil []byte is returned as an empty
// one, to all callers.
func WithCodec(c Codec) Option { return func(s *settings) { s.codec = c } }

// OnError calls f for errors that no caller gets: failed refreshes in the
// background, stores that cannot be reached, values that were not kept
// (ErrNotKept), values that cannot be decoded. f is called from several
// goroutines. A panic in it goes to slog's default logger.
func OnError(f func(key string, err error)) Option { return func(s *settings) { s.onError = f } }

// Codec makes bytes of values and back. It is safe for concurrent use.
type Codec interface {
	// Encode returns v as bytes.
	Encode(v any) ([]byte, error)
	// Decode reads data into the variable that v points to.
	Decode(data []byte, v any) error
}

// JSON is a Codec by encoding/json.
type JSON struct{}

// Encode implements Codec.
func (JSON) Encode(v any) ([]byte, error) { return json.Marshal(v) }

// Decode implements Codec.
func (JSON) Decode(data []byte, v any) error { return json.Unmarshal(data, v) }

// encode never returns nil bytes without an error: nil is "nothing kept".
func encode(c Codec, v any) ([]byte, error) {
	switch v := v.(type) {
	case []byte:
		return append([]byte{}, v...), nil
	case string:
		return append([]byte{}, v...), nil
	}
	data, err := c.Encode(v)
	if err == nil && data == nil {
		data = []byte{}
	}
	return data, err
}

func decode[T any](c Codec, data []byte) (T, error) {
	var v T
	switch p := any(&v).(type) {
	case *[]byte:
		*p = append([]byte{}, data...)
		return v, nil
	case *string:
		*p = string(data)
		return v, nil
	}
	if err := c.Decode(data, &v); err != nil {
		return v, fmt.Errorf("stampede: the value that is kept does not fit %T: %w", v, errors.Join(errDecode, err))
	}
	return v, nil
}

var errDecode = errors.New("cannot decode")
