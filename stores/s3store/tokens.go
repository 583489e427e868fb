package s3store

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/padlock-go/padlock/storekit/overhttp"
)

// tokens finds access tokens, and keeps the last one.
type tokens struct {
	client  *http.Client
	request func(context.Context) (*http.Request, error) // for a token
	refused atomic.Bool                                  // the service does not take the last token any more
	turn    chan struct{}                                // has a value while a goroutine uses what follows
	token   string
	until   time.Time
	tried   time.Time // when the last fetch began
}

// keepTokens returns the tokens for the requests of c.
func keepTokens(c *overhttp.Client, client *http.Client, request func(context.Context) (*http.Request, error)) *tokens {
	t := &tokens{client: client, request: request, turn: make(chan struct{}, 1)}
	c.Judge = t.judge
	return t
}

// early is how long before its end a token is replaced.
const early = time.Minute

// While the last token is valid, a fetch takes patience at most, and the next one begins pause
// later: a silent token server must not use up the time of the requests.
const (
	patience = time.Second
	pause    = 5 * time.Second
)

// judge notes that the service has refused a token before its end.
func (t *tokens) judge(r *overhttp.Reply) {
	if r.Status == http.StatusUnauthorized {
		t.refused.Store(true)
	}
}

// get returns a token. If a new one cannot be had, the last one serves until its end.
func (t *tokens) get(ctx context.Context) (string, error) {
	select {
	case t.turn <- struct{}{}:
		defer func() { <-t.turn }()
	case <-ctx.Done():
		return "", ctx.Err()
	}
	left := time.Until(t.until)
	if left > early && !t.refused.Load() || left > 0 && time.Since(t.tried) < pause {
		return t.token, nil
	}
	t.tried = time.Now()
	if left > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, patience)
		defer cancel()
	}
	q, err := t.request(ctx)
	if err == nil {
		err = t.fetch(q)
	}
	if err != nil && time.Now().After(t.until) {
		return "", err
	}
	return t.token, nil
}

// fetch gets a new token.
func (t *tokens) fetch(q *http.Request) error {
	sent := time.Now()
	reply, err := t.client.Do(q)
	if err != nil {
		return err
	}
	defer reply.Body.Close()
	body, err := io.ReadAll(io.LimitReader(reply.Body, 1<<16))
	if err != nil {
		return err
	}
	var a struct {
		Token   string      `json:"access_token"`
		Seconds json.Number `json:"expires_in"` // the machines of Azure write it in quotes
		End     json.Number `json:"expires_on"` // since 1970, in Azure's functions and apps in place of expires_in
	}
	switch {
	case reply.StatusCode != http.StatusOK:
		return fmt.Errorf("%s answers %s: %.200q", q.URL.Host, reply.Status, body)
	case json.Unmarshal(body, &a) != nil || a.Token == "":
		return fmt.Errorf("the reply of %s has no access token", q.URL.Host) // it may have a secret
	}
	// By the time of day: the other clock of the process stands still while a machine sleeps.
	t.refused.Store(false)
	t.token, t.until = a.Token, sent.Round(0)
	if seconds, err := a.Seconds.Int64(); err == nil {
		t.until = t.until.Add(time.Duration(seconds) * time.Second)
	} else if end, err := a.End.Int64(); err == nil {
		t.until = time.Unix(end, 0)
	}
	return nil
}

// formRequest returns the request that sends a form.
func formRequest(ctx context.Context, target string, form url.Values) (*http.Request, error) {
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, target, strings.NewReader(form.Encode()))
	if err == nil {
		q.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	return q, err
}

// first sets an empty text to the first of the others that is not empty.
func first(text *string, others ...string) {
	for _, other := range others {
		if *text == "" {
			*text = other
		}
	}
}
