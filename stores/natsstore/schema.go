package natsstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit"
)

// schema returns the command that makes the bucket with NATS's own tool.
func schema(u *url.URL) ([]string, error) {
	r, c, err := read(u)
	if err != nil {
		return nil, err
	}
	if !bucketForm.MatchString(c.Bucket) {
		return nil, errBucket
	}
	return []string{"nats kv add " + c.Bucket + " --history=1 --storage=file --replicas=" + cmp.Or(r.Values["replicas"], "1")}, nil
}

// upgrade makes the bucket if there is none.
func upgrade(ctx context.Context, u *url.URL) (from, to int, err error) {
	r, c, err := config(u)
	if err != nil {
		return 0, 0, err
	}
	_, b, err := connect(c, r.Opts)
	if err != nil {
		return 0, 0, err
	}
	defer b.Close()
	b.password = r.Password
	replicas, _ := strconv.Atoi(r.Values["replicas"])
	return b.create(ctx, max(1, replicas))
}

func (c *connection) create(ctx context.Context, replicas int) (from, to int, err error) {
	ctx, cancel := context.WithTimeout(ctx, storekit.Patience)
	defer cancel()
	made, err := c.dial(false)
	if err != nil {
		return 0, 0, storekit.Failure(err)
	}
	defer made.Close()
	if _, err = made.js.KeyValue(ctx, c.name); err == nil {
		return 1, 1, nil
	}
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		_, err = made.js.CreateKeyValue(ctx, jetstream.KeyValueConfig{Bucket: c.name, History: 1, Storage: jetstream.FileStorage, Replicas: replicas})
	}
	if err != nil && !errors.Is(err, jetstream.ErrBucketExists) { // somebody else made it just now
		return 0, 0, fmt.Errorf("%w: the bucket %s cannot be made: %w", driver.ErrUnavailable, c.name, explain(err, c.lastSaid()))
	}
	return 0, 1, nil
}

// Status reports the settings of the bucket; see driver.Reporter.
func (c *connection) Status(ctx context.Context) ([]driver.Finding, error) {
	info, err := do(ctx, c, true, func(ctx context.Context, now *client) (*jetstream.StreamInfo, error) {
		return now.info(ctx, c.stream())
	})
	if err != nil {
		return nil, err
	}
	set := &info.Config
	return []driver.Finding{kept(c.name, set), expiry(set), limits(set)}, nil
}

// kept says how the servers keep a bucket.
func kept(name string, set *jetstream.StreamConfig) driver.Finding {
	f := driver.Finding{Name: "bucket", Value: fmt.Sprintf("%s: %s storage, replicas: %d", name, strings.ToLower(set.Storage.String()), set.Replicas)}
	switch {
	case set.Storage != jetstream.FileStorage:
		f.Advice = "a restart of the servers frees all locks: make a bucket with --storage=file"
	case set.Mirror != nil || len(set.Sources) > 0:
		f.Advice = "the bucket is a copy of another one, and may be behind: name the other one"
	case set.PersistMode == jetstream.AsyncPersistMode:
		f.Advice = "a server that is killed forgets its last changes, and two processes may hold one lock: make a bucket without the persist mode async"
	}
	return f
}

// expiry says when the servers delete a value by themselves.
func expiry(set *jetstream.StreamConfig) driver.Finding {
	f := driver.Finding{Name: "expiry", Value: "none"}
	if set.MaxAge > 0 {
		f.Value = "values are deleted " + set.MaxAge.String() + " after their last change"
		if set.MaxAge < shortestAge {
			f.Advice = "a lock that is held, and the fence of a free one, may be deleted: make a bucket without --ttl"
		}
	}
	return f
}

// limits says what the servers do not take, or delete to make room.
func limits(set *jetstream.StreamConfig) driver.Finding {
	f := driver.Finding{Name: "limits", Value: "none"}
	var all []string
	for name, limit := range map[string]int64{"bytes": set.MaxBytes, "messages": set.MaxMsgs, "bytes in a message": int64(set.MaxMsgSize)} {
		if limit > 0 {
			all = append(all, fmt.Sprintf("%d %s", limit, name))
		}
	}
	if slices.Sort(all); all != nil {
		f.Value = strings.Join(all, ", ")
	}
	full := set.MaxBytes > 0 || set.MaxMsgs > 0
	switch {
	case full && set.Discard == jetstream.DiscardOld:
		f.Advice = "a full bucket deletes the lock that was changed first, and another process gets it: make a bucket with discard=new"
	case set.DiscardNewPerSubject:
		f.Advice = "the bucket takes no change of a lock: make one without discard_new_per_subject"
	case set.MaxMsgSize > 0 && set.MaxMsgSize < maxMessage:
		f.Advice = fmt.Sprintf("a lock with many readers cannot be renewed: the bucket must take messages of %d bytes", maxMessage)
	case full:
		f.Advice = "a full bucket refuses renewals, too: let it grow without a limit, or watch its size"
	}
	return f
}
