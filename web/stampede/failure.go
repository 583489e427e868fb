package stampede

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"reflect"
	"slices"
	"strings"
	"time"
)

// failure is the error of a function that failed recently.
type failure struct {
	err   error
	at    time.Time
	until time.Time // the function is not called before this time
}

// recent reports whether the function failed recently. After a recent failure, a caller does not
// wait for the next try.
func (f *failure) recent(now time.Time) bool {
	return now.Sub(f.at) < 10*f.until.Sub(f.at)
}

// backOff keeps this process from calling the function for the key until f.until. Before that time,
// callers get the error of f.
func (c *core) backOff(name string, f failure) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failed.putEntry(name, f)
}

// backingOff returns the error of a recent failure if the Cache must not call the function yet.
// After the back-off it returns nil. The caller holds c.mu.
func (c *core) backingOff(name string) error {
	if f := c.failed.getEntry(name); f != nil && time.Now().Before(f.until) {
		return f.err
	}
	return nil
}

// failing reports whether Get should serve a stale value at once because the function has failed.
// There are two such cases:
//
//   - The back-off is not over, so the function must not be called.
//   - The back-off is over, and no value was stored since the failure. Either the failure is
//     recent, or a refresh is running.
func (c *core) failing(name string, valueAge time.Duration) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	f, now := c.failed.getEntry(name), time.Now()
	if f == nil || now.Before(f.until) {
		return f != nil
	}
	// If the value is older than the failure, no value was stored since the failure.
	return now.Sub(f.at) < valueAge && (f.recent(now) || now.Before(c.refreshing[name]))
}

func (c *core) succeeded(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failed.remove(name)
}

// RemoteError is the error of a function that failed recently in another process. It has the text
// of the original error. errors.Is finds the errors that the original wrapped, compared by type and
// text. So package-level errors such as sql.ErrNoRows keep their meaning. errors.As finds only the
// RemoteError.
type RemoteError struct {
	Text string // of the original error

	wrapped []string
}

// Error repeats the original error.
func (e *RemoteError) Error() string {
	return "stampede: the function failed in another process: " + e.Text
}

// Is reports whether the original error, or an error that it wrapped, has the type and the text of
// target.
func (e *RemoteError) Is(target error) bool {
	return slices.Contains(e.wrapped, identity(target))
}

// identity returns the type and the text of an error. RemoteError.Is compares errors by this text.
func identity(err error) string {
	return reflect.TypeOf(err).String() + ":" + cut(err.Error())
}

// cut shortens a text. It also replaces invalid UTF-8, because JSON would change that.
func cut(text string) string { return strings.ToValidUTF8(text[:min(len(text), 1000)], "\uFFFD") }

// maxWrapped bounds how many of the wrapped errors are shared with other processes.
const maxWrapped = 32

func identities(err error, into []string) []string {
	if err == nil || len(into) == maxWrapped {
		return into
	}
	into = append(into, identity(err))
	switch err := err.(type) {
	case interface{ Unwrap() error }:
		return identities(err.Unwrap(), into)
	case interface{ Unwrap() []error }:
		for _, e := range err.Unwrap() {
			into = identities(e, into)
		}
	}
	return into
}

// A mark tells other processes that the function of a key failed. It is stored in Values, as a
// value that is fresh for ErrorTTL, or for the time that FreshFor has set. The mark contains the
// version of its key. Invalidate changes that version, so a mark from before an Invalidate is
// ignored.
//
// There are markSlots marks, so two keys may share one mark. If the functions of both keys fail at
// the same time, other processes learn only of the second failure.
type mark struct {
	Format  int      `json:"format,omitempty"` // 0 is the first format; newer versions of padlock write other numbers
	Name    []byte   `json:"name"`
	Version uint64   `json:"version"`
	Text    string   `json:"text"`
	Wrapped []string `json:"wrapped"`
}

const markSlots = 1024

func markKey(name string) string {
	h := fnv.New32a()
	h.Write([]byte(name))
	return fmt.Sprintf("\x00stampede-failure:%d", h.Sum32()%markSlots)
}

// markName returns name, or a hash of it if it is long.
func markName(name string) []byte {
	if len(name) <= 200 {
		return []byte(name)
	}
	sum := sha256.Sum256([]byte(name))
	return []byte(hex.EncodeToString(sum[:]))
}

// sharesFailures reports whether failures are shared with other processes. If the values are in a
// Memory, no other process sees them, so failures are not shared.
func (j *job) sharesFailures() bool {
	_, private := j.c.values.(*Memory)
	return j.s.errorTTL > 0 && !private
}

// storeMark stores a mark. The caller holds the lock of the key.
func (j *job) storeMark(ctx context.Context, version uint64, err error) {
	ttl := j.errorTime()
	if !j.sharesFailures() || ttl == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	data, failed := json.Marshal(mark{Name: markName(j.name), Version: version, Text: cut(err.Error()), Wrapped: identities(err, nil)})
	if failed != nil {
		j.s.report(ctx, j.key, failed)
		return
	}
	key := markKey(j.name)
	old, failed := j.c.values.Load(ctx, key)
	if failed == nil {
		_, failed = j.c.values.Store(ctx, key, Entry{Value: data, Version: old.Version, Fresh: ttl, Keep: ttl})
	}
	j.s.report(ctx, j.key, failed)
}

// readMark reads the key's mark. It returns the failure of another process, or nil if no mark
// applies. The caller holds the lock of the key.
func (j *job) readMark(ctx context.Context, version uint64) *failure {
	if !j.sharesFailures() {
		return nil
	}
	e, err := j.c.values.Load(ctx, markKey(j.name))
	if err != nil {
		j.s.report(ctx, j.key, err)
		return nil
	}
	var m mark
	left := e.Fresh - e.Age
	if e.absent() || left <= 0 || json.Unmarshal(e.Value, &m) != nil || m.Format != 0 || string(m.Name) != string(markName(j.name)) || m.Version != version {
		return nil
	}
	now := time.Now()
	return &failure{err: &RemoteError{m.Text, m.Wrapped}, at: now.Add(-e.Age), until: now.Add(left)}
}
