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
	waitAtMost   time.Duration
	localFor     time.Duration
	strict       bool
	codec        Codec
	maxBehind    int
	onError      func(key string, err error)
}

// Prefix is put before each key to make the name of its lock; "stampede:"
// unless set.
func Prefix(p string) Option { return func(s *settings) { s.prefix = p } }

// Lease is the length of the worker's lease, 2 s unless set. It is renewed
// while the function runs; a worker that dies is replaced after it.
func Lease(d time.Duration) Option { return func(s *settings) { s.lease = d } }

// Stale serves a value up to d older than fresh, at once, while one caller
// makes a new one in the background (stale-while-revalidate).
func Stale(d time.Duration) Option { return func(s *settings) { s.stale = d } }

// StaleIfError serves a value up to d older than fresh when the function
// fails.
func StaleIfError(d time.Duration) Option { return func(s *settings) { s.staleIfError = d } }

// Early renews a fresh value before its time, in the background, with a chance
// that grows towards the end and with the time that the function takes. beta 1
// is usual, more is earlier, 0 is off. It only chooses who tries the lock; so
// there is still one worker. (Vattani, Chierichetti, Lowenstein: Optimal
// Probabilistic Cache Stampede Prevention, 2015.)
func Early(beta float64) Option { return func(s *settings) { s.early = beta } }

// Jitter spreads the time for which a value is fresh by up to the given share
// of it, 0 to 1, to either side, so that values made together do not go stale
// together.
func Jitter(share float64) Option { return func(s *settings) { s.jitter = min(max(share, 0), 1) } }

// ErrorTTL is for how long after a failure the error is returned without
// calling the function again, in this process; 1 s unless set, 0 is never.
func ErrorTTL(d time.Duration) Option { return func(s *settings) { s.errorTTL = d } }

// WaitAtMost bounds how long a caller waits for another's value. Then it is
// served a stale one, if there is one, or gets an error that answers errors.Is
// for padlock.ErrHeld. Without it the caller's context alone decides.
func WaitAtMost(d time.Duration) Option { return func(s *settings) { s.waitAtMost = d } }

// Local keeps a value in this process too, for at most d, so that a hot key
// does not ask Values each time. An Invalidate by another process is noticed
// that much later.
func Local(d time.Duration) Option { return func(s *settings) { s.localFor = d } }

// Strict makes an error of Values or of the lock store an error of Remember.
// Without it the function is called then, by one caller of this process at a
// time, since a cache that is down should not take the site down.
func Strict() Option { return func(s *settings) { s.strict = true } }

// WithCodec sets how values become bytes; JSON unless set. Values of type
// []byte and string are kept as they are.
func WithCodec(c Codec) Option { return func(s *settings) { s.codec = c } }

// OnError is told of errors that no caller sees: of refreshes in the
// background, of stores that are out of reach.
func OnError(f func(key string, err error)) Option { return func(s *settings) { s.onError = f } }

// Codec makes bytes of values and back.
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
