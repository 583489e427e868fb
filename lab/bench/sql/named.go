//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/padlock-go/padlock/lab/bench/measure"
	"github.com/padlock-go/padlock/lab/bench/trial"
	"github.com/padlock-go/padlock/stores/mysqladvisory"
	"github.com/padlock-go/padlock/stores/sqlstore/drivers/mysql"
)

const (
	namedPair    = "GET_LOCK and RELEASE_LOCK"
	namedNoFence = "mysqladvisory, no fence"
)

// namedLocks compares mysqladvisory on MariaDB with bare statements.
func (b *bench) namedLocks() *measure.Experiment {
	raw := func(name string, upsert bool) trial.Peer {
		return trial.Peer{Name: name, In: 1, Open: func(*trial.Counter) (*trial.Client, error) { return b.rawNamed(upsert) }}
	}
	store := func(name, query string) trial.Peer {
		return trial.Peer{Name: name, In: 1, Open: trial.Opens(trial.Driver, func() (*mysqladvisory.Store, error) {
			return mysqladvisory.FromURL(context.Background(), b.mariaURL("mysql+advisory", query), mysql.AdvisoryOpener())
		})}
	}
	return b.pair("pair, named locks of MariaDB", []trial.Peer{
		raw(namedPair, false), store(namedNoFence, "fences=no"), raw("GET_LOCK, upsert and RELEASE_LOCK", true), store("mysqladvisory", ""),
	}, measure.Target{Row: namedNoFence, Base: namedPair, AtMost: 1.3})
}

// rawNamed uses bare statements on one connection.
func (b *bench) rawNamed(upsert bool) (*trial.Client, error) {
	db, _, err := mysql.Open(b.mariaURL("mysql", "").String())
	if err != nil {
		return nil, err
	}
	if _, err := db.Exec("CREATE TABLE IF NOT EXISTS bare_fences (id varbinary(64) PRIMARY KEY, n bigint NOT NULL) ENGINE=InnoDB"); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	conn, err := db.Conn(context.Background())
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	end := func() error { return errors.Join(conn.Close(), db.Close()) }
	return trial.NewClient(end, func(ctx context.Context, _ string) (func() error, error) {
		var ok int
		if err := conn.QueryRowContext(ctx, "SELECT GET_LOCK('bare', 0)").Scan(&ok); err != nil || ok != 1 {
			return nil, fmt.Errorf("GET_LOCK: %v, %w", ok, err)
		}
		if upsert {
			text := "INSERT INTO bare_fences VALUES ('bare', LAST_INSERT_ID(1)) ON DUPLICATE KEY UPDATE n = LAST_INSERT_ID(n + 1)"
			if _, err := conn.ExecContext(ctx, text); err != nil {
				return nil, err
			}
		}
		return func() error { return conn.QueryRowContext(ctx, "SELECT RELEASE_LOCK('bare')").Scan(&ok) }, nil
	}), nil
}

// mariaURL returns a URL of the server.
func (b *bench) mariaURL(scheme, query string) *url.URL {
	at := b.maria[strings.Index(b.maria, "(")+1 : strings.Index(b.maria, ")")]
	return &url.URL{Scheme: scheme, User: url.User("root"), Host: at, Path: "/mysql", RawQuery: query}
}
