package mongostore_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/stores/mongostore"
)

func request(name, token string) driver.Request {
	return driver.Request{Name: name, Token: driver.TokenOf(token), TTL: time.Minute, Holder: driver.Holder{Host: "here", PID: 7, Label: "test"}}
}

// The store translates the server's errors. "Cannot know" never becomes "held" or "free".
func TestErrors(t *testing.T) {
	t.Parallel()
	doubt := bson.D{{Key: "code", Value: 64}, {Key: "errmsg", Value: "waiting for replication timed out"}}
	newer := bson.D{{Key: "_id", Value: "job"}, {Key: "padlock", Value: bson.D{{Key: "v", Value: int32(2)}}}, {Key: "now", Value: bson.DateTime(1)}}
	for name, c := range map[string]struct {
		reply bson.D
		want  error
		text  string
	}{
		"the connection ends":              {nil, driver.ErrUncertain, ""},
		"interrupted by a shutdown":        {refusal(11600), driver.ErrUncertain, ""},
		"stepped down":                     {refusal(189), driver.ErrUncertain, ""},
		"out of time":                      {refusal(50), driver.ErrUncertain, ""},
		"no majority":                      {ok("value", nil, "writeConcernError", doubt), driver.ErrUncertain, "replication"},
		"not the primary":                  {refusal(10107), driver.ErrUnavailable, "no primary"},
		"no rights":                        {refusal(13), driver.ErrUnavailable, "may not read and write"},
		"no pipelines":                     {refusal(238), driver.ErrUnavailable, "symfony+mongodb:"},
		"a full disk":                      {refusal(14031), driver.ErrUnavailable, ""},
		"a document of a newer padlock":    {ok("value", newer), driver.ErrUnavailable, "newer padlock"},
		"a document that is not padlock's": {ok("value", bson.D{{Key: "expires_at", Value: "soon"}}), driver.ErrUnavailable, "cannot be read"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sc := &script{reply: always(c.reply)}
			s := sc.serve(t)
			for _, call := range []func() error{
				func() error { return second(s.Acquire(t.Context(), request("job", "one"))) },
				func() error { return second(s.Extend(t.Context(), "job", "one", time.Minute)) },
				func() error { return second(s.Release(t.Context(), "job", "one", 0)) },
			} {
				err := sc.reach(call)
				if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.text) || errors.Is(err, driver.ErrHeld) {
					t.Errorf("%v; want %v with %q", err, c.want, c.text)
				}
			}
		})
	}
}

// reach repeats a call until its request has reached the script, because the client looks for a
// server for a limited time, and the machine may be slow.
func (s *script) reach(call func() error) (err error) {
	before := s.count()
	for range 10 {
		if err = call(); s.count() > before {
			break
		}
	}
	return err
}

// A caller that gives up while the server is silent gets its own error, and the outcome is
// uncertain.
func TestCancelled(t *testing.T) {
	t.Parallel()
	for _, opts := range [][]mongostore.Option{nil, {mongostore.SymfonyLayout()}} {
		got := make(chan struct{}, 9)
		s := (&script{reply: func(bson.Raw) bson.D {
			got <- struct{}{}
			return bson.D{{Key: "silence", Value: true}}
		}}).serve(t, opts...)
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			<-got
			cancel()
		}()
		_, err := s.Acquire(ctx, request("job", "one"))
		if !errors.Is(err, context.Canceled) || !errors.Is(err, driver.ErrUncertain) {
			t.Errorf("cancelled: %v", err)
		}
		if _, err := s.Acquire(ctx, request("job", "two")); !errors.Is(err, context.Canceled) || errors.Is(err, driver.ErrUncertain) {
			t.Errorf("cancelled before the request: %v", err)
		}
	}
}

// Nothing was sent if no server can be reached, so nothing is uncertain.
func TestNobodyThere(t *testing.T) {
	server.Thorough(t)
	t.Parallel()
	c := mongostore.Config{URI: "mongodb://127.0.0.1:1/", Database: "shop", Collection: "padlock"}
	if s, err := mongostore.Open(t.Context(), c); !errors.Is(err, driver.ErrUnavailable) || s != nil {
		t.Errorf("Open: %v, %v", s, err)
	}
	s, err := mongostore.Open(t.Context(), c, mongostore.Lazy())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Acquire(t.Context(), request("job", "one")); !errors.Is(err, driver.ErrUnavailable) || errors.Is(err, driver.ErrUncertain) {
		t.Errorf("Acquire: %v", err)
	}
}

// Two processes that make the document of a name at the same time: the later one tries again, and
// then reads the document.
func TestDuplicateKey(t *testing.T) {
	t.Parallel()
	end := bson.NewDateTimeFromTime(time.Now().Add(time.Minute))
	theirs := bson.D{{Key: "_id", Value: "job"}, {Key: "token", Value: "other"}, {Key: "expires_at", Value: end},
		{Key: "now", Value: bson.NewDateTimeFromTime(time.Now())}}
	tries := 0
	s := (&script{reply: func(command bson.Raw) bson.D {
		if _, err := command.LookupErr("find"); err == nil {
			return ok("cursor", bson.D{{Key: "id", Value: int64(0)}, {Key: "ns", Value: "shop.padlock"}, {Key: "firstBatch", Value: bson.A{theirs}}})
		}
		tries++
		return refusal(11000)
	}}).serve(t)
	_, err := s.Acquire(t.Context(), request("job", "one"))
	var held *driver.HeldError
	if !errors.As(err, &held) || !held.Foreign() || tries != 3 {
		t.Errorf("after %d tries: %v", tries, err)
	}
}

// The application has a document at the name. The requests do not match it, so the server refuses
// to make another one, and no verb changes it.
func TestDocumentOfTheApplication(t *testing.T) {
	t.Parallel()
	theirs := bson.D{{Key: "_id", Value: "job"}, {Key: "total", Value: 7}, {Key: "now", Value: bson.NewDateTimeFromTime(time.Now())}}
	for _, opts := range [][]mongostore.Option{nil, {mongostore.SymfonyLayout()}} {
		s := (&script{reply: func(command bson.Raw) bson.D {
			if _, err := command.LookupErr("find"); err == nil {
				return ok("cursor", bson.D{{Key: "id", Value: int64(0)}, {Key: "ns", Value: "shop.padlock"}, {Key: "firstBatch", Value: bson.A{theirs}}})
			}
			if _, err := command.LookupErr("delete"); err == nil {
				return ok("n", 0)
			}
			return refusal(11000)
		}}).serve(t, opts...)
		for verb, err := range map[string]error{
			"Acquire": second(s.Acquire(t.Context(), request("job", "one"))),
			"Break":   second(s.Break(t.Context(), "job", 0)),
			"Inspect": second(s.Inspect(t.Context(), "job")),
		} {
			if !errors.Is(err, driver.ErrUnavailable) || !strings.Contains(err.Error(), `"job" is not a lock`) {
				t.Errorf("%v: %s: %v", opts, verb, err)
			}
		}
	}
}
