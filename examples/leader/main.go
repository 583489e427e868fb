package main

import (
	"context"
	"database/sql"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/election"
	"github.com/padlock-go/padlock/stores/sqlstore"
	"github.com/padlock-go/padlock/stores/sqlstore/drivers/postgres"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	db, notify, err := postgres.Open(os.Getenv("DATABASE_URL")) // postgres://app@db7/shop
	if err != nil {
		log.Fatal(err)
	}
	if _, err := db.Exec("CREATE TABLE IF NOT EXISTS ticks (leader int, at timestamptz DEFAULT now())"); err != nil {
		log.Fatal(err)
	}
	store, err := sqlstore.Open(ctx, db, sqlstore.PostgreSQL, sqlstore.Notify(notify))
	if err != nil {
		log.Fatal(err)
	}
	locker := padlock.New(store)
	e := election.New(locker, "scheduler",
		election.LockOptions(padlock.TTL(10*time.Second)), // how long a dead leader keeps the lead
		election.OnError(func(err error) { log.Print(err) }),
	)
	err = e.Run(ctx, func(ctx context.Context) error {
		log.Print("leads with the fence ", padlock.GrantFrom(ctx).Fence())
		for {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(time.Second):
				if err := tick(ctx, db, store); err != nil {
					return err
				}
			}
		}
	})
	end, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	locker.Close(end) // another process leads at once
	if err != nil {
		log.Print(err)
	}
}

// tick is one transaction of the leader.
func tick(ctx context.Context, db *sql.DB, store *sqlstore.Store) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if err := store.CheckTx(ctx, tx, padlock.GrantFrom(ctx)); err != nil {
		return err // another process leads: nothing is written
	}
	if _, err := tx.ExecContext(ctx, "INSERT INTO ticks (leader) VALUES ($1)", os.Getpid()); err != nil {
		return err
	}
	return tx.Commit()
}
