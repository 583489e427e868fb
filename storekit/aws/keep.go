package aws

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"
)

// Keep returns a function that returns the access key of a request: the last one that find has
// found. find also says when the key ends; a lasting key has no end. Keep asks it again and again,
// but while the last key is valid, a find that fails or is silent changes nothing. At most one find
// runs at a time. It may ignore its ctx, as one that runs a program does.
func Keep(find func(ctx context.Context) (k Key, end time.Time, err error)) func(ctx context.Context) (id, secret, session string, err error) {
	get, _ := KeepUntilRefused(find)
	return get
}

// KeepUntilRefused is like Keep. It also returns a function that the caller calls when the service
// does not know the key any more (IsOldKey): then the next request asks find, unless find was asked
// in the last five seconds.
func KeepUntilRefused(find func(ctx context.Context) (k Key, end time.Time, err error)) (get func(ctx context.Context) (id, secret, session string, err error), refused func()) {
	k := &keeper{find: find}
	return func(ctx context.Context) (id, secret, session string, err error) {
		key, err := k.get(ctx)
		secret, session = key.Texts()
		return key.ID, secret, session, err
	}, k.refuse
}

// oldKeys are the codes of replies of Amazon's services about a key that has ended or was removed.
var oldKeys = [][]byte{
	[]byte("ExpiredToken"), []byte("InvalidToken"), []byte("InvalidAccessKeyId"), // S3
	[]byte("UnrecognizedClientException"), // DynamoDB; ExpiredTokenException is above
}

// IsOldKey reports whether a reply says that the access key has ended or was removed. Such a request
// has changed nothing.
func IsOldKey(status int, body []byte) bool {
	refused := status == http.StatusBadRequest || status == http.StatusForbidden || status == http.StatusUnauthorized
	return refused && slices.ContainsFunc(oldKeys, func(code []byte) bool { return bytes.Contains(body, code) })
}

type keeper struct {
	find func(ctx context.Context) (Key, time.Time, error)

	mu   sync.Mutex
	last Key
	end  time.Time     // of last; zero if it has none
	err  error         // of the last find
	next time.Time     // while last is valid, the next find begins no earlier
	seen time.Time     // the end of the last find
	done chan struct{} // closed at the end of the find that runs; nil if none does
}

// While the last key is valid, a request waits for a new one for patience at most, and once in
// pause. After a find that worked, the next one is soon enough after a minute, or after a tenth of
// the time that is left. A find has longest to end.
const (
	patience = time.Second
	pause    = 5 * time.Second
	often    = time.Minute
	longest  = 10 * time.Second
)

// valid reports whether there is a key that has not ended. The end is a time of day: the other
// clock of the process stands still while a machine sleeps.
func (k *keeper) valid() bool {
	return k.last.ID != "" && (k.end.IsZero() || time.Now().Before(k.end))
}

func (k *keeper) get(ctx context.Context) (Key, error) {
	k.mu.Lock()
	valid, begun := k.valid(), false
	if k.done == nil && (!valid || !time.Now().Before(k.next)) {
		begun, k.done = true, make(chan struct{})
		go k.search(context.WithoutCancel(ctx), k.done)
	}
	key, done := k.last, k.done
	k.mu.Unlock()
	if valid && !begun {
		return key, nil
	}
	limited := ctx
	if valid {
		var cancel context.CancelFunc
		limited, cancel = context.WithTimeout(ctx, patience)
		defer cancel()
	}
	select {
	case <-done:
	case <-limited.Done():
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case k.valid():
		return k.last, nil
	case ctx.Err() != nil:
		return Key{}, fmt.Errorf("the search for it has not ended: %w", ctx.Err())
	case k.err == nil:
		return Key{}, errors.New("it has ended, and there was no time to find another")
	}
	return Key{}, k.err
}

// refuse is called when the service has refused the last key.
func (k *keeper) refuse() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if soon := k.seen.Add(pause); soon.Before(k.next) {
		k.next = soon
	}
}

// search runs find once.
func (k *keeper) search(ctx context.Context, done chan struct{}) {
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	key, end, err := k.find(ctx)
	k.mu.Lock()
	defer k.mu.Unlock()
	defer close(done)
	now := time.Now()
	k.done, k.err, k.next, k.seen = nil, err, now.Add(pause), now
	if err != nil {
		return
	}
	k.last, k.end, k.next = key, end, now.Add(often)
	if !end.IsZero() {
		if soon := now.Add(pause); end.Before(soon) { // this clock is ahead, or the service prolongs its keys: it judges
			k.end = soon
		}
		k.next = now.Add(min(often, k.end.Sub(now)/10))
	}
}
