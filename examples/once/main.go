package main

import (
	"context"
	"database/sql"
	"errors"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/stores/sqlstore"
	"github.com/padlock-go/padlock/stores/sqlstore/drivers/postgres"
)

func main() {
	// Without NotifyContext, SIGTERM ends the process before its deferred calls (docs/shutdown.md).
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	if err := run(ctx); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	db, _, err := postgres.Open(os.Getenv("DATABASE")) // postgres://HOST/shop
	if err != nil {
		return err
	}
	defer db.Close()
	store, err := sqlstore.Open(ctx, db, sqlstore.PostgreSQL)
	if err != nil {
		return err
	}
	locker := padlock.New(store)
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		locker.Close(ctx)
	}()
	day := time.Now().UTC().Format(time.DateOnly)
	err = Once(ctx, locker, db, day, func(ctx context.Context, tx *sql.Tx) error {
		// The work: it writes with tx. An e-mail gets the key "report:"+day, so that the mail
		// service refuses the second one.
		log.Print("making the report of ", day)
		return nil
	})
	if errors.Is(err, padlock.ErrHeld) {
		log.Print("another server is at it: ", err)
		return nil
	}
	return err
}

// Once makes the report of a day, unless a server has made it already. The work and the record that
// it is done are one transaction, so a crash leaves both or neither.
func Once(ctx context.Context, locker *padlock.Locker, db *sql.DB, day string, report func(context.Context, *sql.Tx) error) error {
	return locker.Do(ctx, "report:"+day, func(ctx context.Context) error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer tx.Rollback()
		// The primary key refuses a second record even if the lock was lost meanwhile.
		result, err := tx.ExecContext(ctx, "INSERT INTO reports (day) VALUES ($1) ON CONFLICT DO NOTHING", day)
		if err != nil {
			return err
		}
		if n, err := result.RowsAffected(); err != nil || n == 0 {
			return err // 0 rows: the report is there
		}
		if err := report(ctx, tx); err != nil {
			return err
		}
		return tx.Commit()
	}, padlock.Wait(time.Minute))
}
