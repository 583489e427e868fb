package natsstore

import (
	"errors"
	"fmt"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/storekit/register"
)

// A server that answers 500 or more may have stored a message. Any other error in a reply is a
// refusal.
func TestReplies(t *testing.T) {
	t.Parallel()
	srv := server.NATS(t, server.NATSOptions{})
	nc, err := nats.Connect(srv.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	for reply, want := range map[string]error{
		`{"stream":"KV_locks","seq":7}`: nil,
		`{"error":{"code":400,"err_code":10071,"description":"wrong last sequence: 6"}}`:          register.ErrChanged,
		`{"error":{"code":400,"err_code":10164,"description":"wrong last sequence"}}`:             register.ErrChanged,
		`{"error":{"code":400,"err_code":10054,"description":"message size exceeds maximum"}}`:    driver.ErrUnavailable,
		`{"error":{"code":503,"err_code":10077,"description":"maximum bytes exceeded"}}`:          driver.ErrUnavailable,
		`{"error":{"code":503,"err_code":10077,"description":"disk failed"}}`:                     driver.ErrUncertain,
		`{"error":{"code":503,"err_code":10008,"description":"JetStream system is unavailable"}}`: driver.ErrUncertain,
		`{"error":{"code":404,"err_code":10059,"description":"stream not found"}}`:                driver.ErrUnavailable,
		`<html>`: driver.ErrUncertain,
	} {
		sub, err := nc.Subscribe("$KV.locks.job", func(m *nats.Msg) { m.Respond([]byte(reply)) })
		if err != nil {
			t.Fatal(err)
		}
		js, err := jetstream.New(nc)
		if err != nil {
			t.Fatal(err)
		}
		_, b, err := connect(Config{Servers: []string{srv.Addr()}, Bucket: "locks"}, nil)
		if err != nil {
			t.Fatal(err)
		}
		b.made = &client{Conn: nc, js: js, up: t.Context()} // without a bucket, so that only the test replies
		err = b.Put(t.Context(), "job", []byte("value"), "6")
		if known := fmt.Sprint(errors.Is(err, driver.ErrUncertain), errors.Is(err, register.ErrChanged)); !errors.Is(err, want) ||
			known != fmt.Sprint(want == driver.ErrUncertain, want == register.ErrChanged) {
			t.Errorf("%s: %v; want %v", reply, err, want)
		}
		if err := sub.Unsubscribe(); err != nil {
			t.Fatal(err)
		}
	}
}
