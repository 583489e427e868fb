package natsstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit"
	"github.com/padlock-go/padlock/storekit/register"
)

// A bucket is a register: the value of a key is the last message of its subject, and the version is
// the number of that message in the stream of the bucket.
type bucket struct {
	*connection
	clock string // by which all programs judge: observed or server
}

// clockHeader says in a message by which clock its record was written.
const clockHeader = "Padlock-Clock"

// kvKey returns the key as NATS's tools take it. A percent sign is not allowed there.
func kvKey(key string) string { return strings.ReplaceAll(key, "%", "=") }

func (b *bucket) subject(key string) string { return "$KV." + b.name + "." + kvKey(key) }

// free is the record of a name that nobody uses. It stands for the message that NATS writes in the
// place of a value that somebody has deleted: the next Put has to name that message.
const free = `{"padlock":1}`

// Get reads a value.
func (b *bucket) Get(ctx context.Context, key string) (register.Value, error) {
	return do(ctx, b.connection, true, func(ctx context.Context, c *client) (v register.Value, err error) {
		if b.clock == "server" {
			info, err := c.info(ctx, b.stream())
			if err != nil {
				return v, err
			}
			v.Now = info.TimeStamp
		}
		m, err := c.stream.GetLastMsgForSubject(ctx, b.subject(key))
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			return v, nil
		} else if err != nil {
			return v, err
		}
		v.Data, v.Version = m.Data, strconv.FormatUint(m.Sequence, 10)
		if m.Header.Get("KV-Operation") != "" || m.Header.Get(jetstream.MarkerReasonHeader) != "" {
			v.Data = []byte(free)
		} else if clock := m.Header.Get(clockHeader); clock != b.clock && clock != "" {
			return v, fmt.Errorf("%w: %q was written with clock=%s, and this program has clock=%s: use the same everywhere", driver.ErrUnavailable, kvKey(key), clock, b.clock)
		}
		return v, nil
	})
}

// Put writes a value if the last message of the key is still the given one.
func (b *bucket) Put(ctx context.Context, key string, data []byte, version string) error {
	seen, _ := strconv.ParseUint(version, 10, 64)
	_, err := do(ctx, b.connection, false, func(ctx context.Context, c *client) (*jetstream.PubAck, error) {
		m := &nats.Msg{Subject: b.subject(key), Data: data, Header: nats.Header{clockHeader: {b.clock}}}
		ack, err := c.js.PublishMsg(ctx, m, jetstream.WithExpectLastSequencePerSubject(seen), jetstream.WithRetryAttempts(0))
		return ack, asChanged(err)
	})
	return err
}

// Watch waits for a message of the key that is newer than the version, or until the connection is
// lost.
func (b *bucket) Watch(ctx context.Context, key, version string) error {
	seen, _ := strconv.ParseUint(version, 10, 64)
	c, err := b.client(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // the client then ends the watch in the background
	defer context.AfterFunc(c.up, cancel)()
	late := time.AfterFunc(oneTry, cancel) // ctx lasts as long as the lease
	w, err := within(ctx, func() (jetstream.KeyWatcher, error) { return c.kv.Watch(ctx, kvKey(key), jetstream.MetaOnly()) })
	late.Stop()
	switch {
	case err != nil && c.up.Err() != nil:
		return nil
	case err != nil:
		return failure(&storekit.NoReply{Err: explain(err, b.lastSaid()), Unsent: true}, b.name)
	}
	for {
		select {
		case e, open := <-w.Updates():
			if !open || e != nil && e.Revision() > seen { // nil: the message of now has come
				return nil
			}
		case <-ctx.Done():
			return nil
		}
	}
}

// Names lists the keys of the bucket.
func (b *bucket) Names(ctx context.Context, prefix string) ([]string, error) {
	return do(ctx, b.connection, true, func(ctx context.Context, c *client) (keys []string, err error) {
		info, err := c.info(ctx, b.stream(), jetstream.WithSubjectFilter(b.subject(">")))
		if err != nil {
			return nil, err
		}
		for subject := range info.State.Subjects {
			key := strings.ReplaceAll(strings.TrimPrefix(subject, b.subject("")), "=", "%")
			if strings.HasPrefix(key, prefix) {
				keys = append(keys, key)
			}
		}
		return keys, nil
	})
}
