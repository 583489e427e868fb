package main

import (
	"context"
	"net/url"
	"os"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/replay"
	"github.com/padlock-go/padlock/lab/certificate"
)

// converse records a short conversation with the service beside the certificate. The tests of padlock
// play it to the store again.
func (c *certification) converse(ctx context.Context) error {
	q := certificate.Question{Name: "conversation", Asked: "some forty requests of two programs get the replies that the store expects; they are recorded for the tests of padlock"}
	at, err := url.Parse(c.url)
	if err != nil {
		return err
	}
	if err := replay.CanPlay(at); err != nil {
		c.skip(q, err.Error())
		return nil
	}
	at = at.JoinPath(c.base)
	var made replay.Made
	c.add(q, func(q *certificate.Question) error {
		made, err = replay.Record(ctx, at, func(ctx context.Context) (driver.Store, error) { return openStore(ctx, at.String()) })
		q.Counts["requests"] = made.Requests
		return err
	})
	if made.File == nil {
		return nil
	}
	file := certificate.Conversation(c.file)
	say("the conversation is in " + file)
	return os.WriteFile(file, made.File, 0o644)
}
