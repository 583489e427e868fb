package sqlstore_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/server"
)

// TestFullPool: every connection of the pool is in use, for instance by a migration that wants the
// lock itself. Nothing is sent, so nothing is uncertain, and the error names the pool.
func TestFullPool(t *testing.T) {
	for limit, text := range map[int]string{1: "the only connection of the pool was in use", 2: "all 2 connections of the pool were in use"} {
		synctest.Test(t, func(t *testing.T) { fullPool(t, limit, text) })
	}
}

func fullPool(t *testing.T, limit int, text string) {
	d := databases["sqlite"](t)
	db, err := d.pool()
	noError(t, err)
	db.SetMaxOpenConns(limit)
	p := partyOver(t, db, d.engine)
	p.hold(t, "held", "token") // the tables exist, and statements are prepared
	for range limit {
		conn, err := db.Conn(t.Context())
		noError(t, err)
		t.Cleanup(func() { conn.Close() })
	}
	for what, call := range map[string]func() error{
		"Acquire": func() error {
			_, err := p.store.Acquire(t.Context(), driver.Request{Name: "free", Token: driver.TokenOf("token"), TTL: time.Minute})
			return err
		},
		"Extend": func() error {
			_, err := p.store.Extend(t.Context(), "held", "token", time.Minute)
			return err
		},
		"Release": func() error {
			_, err := p.store.Release(t.Context(), "held", "token", 0)
			return err
		},
		"List": func() error {
			_, err := p.store.List(t.Context(), "")
			return err
		},
		"Locker.TryAcquire": func() error {
			_, err := p.locker.TryAcquire(t.Context(), "free")
			return err
		},
	} {
		err := call()
		if !errors.Is(err, driver.ErrUnavailable) || errors.Is(err, padlock.ErrUncertain) || !strings.Contains(err.Error(), text) {
			t.Errorf("%s: %v; want ErrUnavailable and %q", what, err, text)
		}
	}
}

// TestQueryModes: the store works in every mode in which pgx sends statements.
func TestQueryModes(t *testing.T) {
	server.Thorough(t)
	t.Parallel()
	for _, mode := range []string{"cache_statement", "cache_describe", "describe_exec", "exec", "simple_protocol"} {
		d := databases["postgres"](t)
		d.dsn += "&default_query_exec_mode=" + mode
		p := d.party(t)
		p.hold(t, mode, "token")
		tx, err := p.lockTx(t, "another name")
		noError(t, err)
		noError(t, tx.Commit())
		_, err = p.store.Extend(t.Context(), mode, "token", time.Minute)
		noError(t, err)
		list, err := p.store.List(t.Context(), "")
		noError(t, err)
		if len(list) != 1 {
			t.Errorf("%s: %+v", mode, list)
		}
		out, err := p.store.Release(t.Context(), mode, "token", 0)
		noError(t, err)
		if out != driver.OutcomeReleased {
			t.Errorf("%s: %v", mode, out)
		}
	}
}
