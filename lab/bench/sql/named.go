//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/lab/bench/measure"
	"github.com/padlock-go/padlock/stores/mysqladvisory"
	"github.com/padlock-go/padlock/stores/sqlstore/drivers/mysql"
)

const (
	namedPair    = "GET_LOCK and RELEASE_LOCK"
	namedUpsert  = "GET_LOCK, upsert and RELEASE_LOCK"
	namedNoFence = "mysqladvisory, no fence"
	namedFence   = "mysqladvisory"
)

// namedLocks measures how long it takes to acquire and release a free lock with mysqladvisory on
// MariaDB.
func (b *bench) namedLocks() *measure.Experiment {
	raw := func(upsert bool) func() (measure.Figures, error) {
		return func() (measure.Figures, error) { return b.rawNamed(upsert) }
	}
	ours := func(query string) func() (measure.Figures, error) {
		return func() (measure.Figures, error) { return b.mysqladvisoryPair(query) }
	}
	return &measure.Experiment{
		Name:    "pair, named locks of MariaDB",
		Columns: []measure.Column{{Name: "us", Format: "%.1f"}, {Name: "p50 us", Format: "%.1f"}, {Name: "client us", Format: "%.1f"}},
		Rows: []measure.Row{
			{Name: namedPair, Run: raw(false)}, {Name: namedNoFence, Run: ours("fences=no")},
			{Name: namedUpsert, Run: raw(true)}, {Name: namedFence, Run: ours("")},
		},
		Base: namedPair, Ratio: "p50 us",
		Targets: []measure.Target{{Row: namedNoFence, Column: "p50 us", Base: namedPair, AtMost: 1.3}},
	}
}

// rawNamed measures the bare statements on one connection.
func (b *bench) rawNamed(upsert bool) (f measure.Figures, err error) {
	ctx := context.Background()
	db, _, err := mysql.Open(b.mariaURL("mysql", "").String())
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	if _, err := conn.ExecContext(ctx, "CREATE TABLE IF NOT EXISTS bare_fences (id varbinary(64) PRIMARY KEY, n bigint NOT NULL) ENGINE=InnoDB"); err != nil {
		return nil, err
	}
	return b.time(func(ctx context.Context) error {
		var ok int
		if err := conn.QueryRowContext(ctx, "SELECT GET_LOCK('bare', 0)").Scan(&ok); err != nil || ok != 1 {
			return fmt.Errorf("GET_LOCK: %v, %w", ok, err)
		}
		if upsert {
			text := "INSERT INTO bare_fences VALUES ('bare', LAST_INSERT_ID(1)) ON DUPLICATE KEY UPDATE n = LAST_INSERT_ID(n + 1)"
			if _, err := conn.ExecContext(ctx, text); err != nil {
				return err
			}
		}
		return conn.QueryRowContext(ctx, "SELECT RELEASE_LOCK('bare')").Scan(&ok)
	})
}

// mariaURL returns a URL of the server.
func (b *bench) mariaURL(scheme, query string) *url.URL {
	at := b.maria[strings.Index(b.maria, "(")+1 : strings.Index(b.maria, ")")]
	return &url.URL{Scheme: scheme, User: url.User("root"), Host: at, Path: "/mysql", RawQuery: query}
}

func (b *bench) mysqladvisoryPair(query string) (f measure.Figures, err error) {
	s, err := mysqladvisory.FromURL(context.Background(), b.mariaURL("mysql+advisory", query), mysql.AdvisoryOpener())
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	n := 0
	return b.time(func(ctx context.Context) error {
		n++
		r := driver.Request{Name: "pair", Token: "token" + strconv.Itoa(n), TTL: time.Minute}
		if _, err := s.Acquire(ctx, r); err != nil {
			return err
		}
		out, err := s.Release(ctx, r.Name, r.Token, 0)
		if err == nil && out != driver.Released {
			err = fmt.Errorf("release found %d", out)
		}
		return err
	})
}
