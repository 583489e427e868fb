package rig

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/stores/sqlstore"
)

// A clerk is the goroutine of a worker's process that writes invoices.
type clerk struct {
	*sqlstore.Store // the store of the whole process
	db              *sql.DB
	locker          *padlock.Locker
	worker          int
	n               int // transactions so far
	stop            context.CancelFunc
	stopped         chan struct{}
}

// openBank opens the store of a worker, and starts a clerk that works until the store is closed.
// The words are the number of the worker and the URL of the database. The first transactions of a
// clerk are those of first, which is of a test, or nil.
func openBank(ctx context.Context, words []string, first func(context.Context, *clerk) error) (driver.Store, error) {
	worker, err := strconv.Atoi(words[0])
	if err != nil {
		return nil, err
	}
	d, engine := postgreSQL, sqlstore.PostgreSQL
	if strings.HasPrefix(words[1], "mysql") {
		d, engine = mariaDB, sqlstore.MySQL
	}
	db, listener, err := d.open(words[1])
	if err != nil {
		return nil, err
	}
	var opts []sqlstore.Option
	if listener != nil {
		opts = append(opts, sqlstore.Notify(listener))
	}
	store, err := sqlstore.Open(ctx, db, engine, opts...)
	if err != nil {
		db.Close()
		return nil, err
	}
	c := &clerk{Store: store, db: db, worker: worker, stopped: make(chan struct{})}
	c.locker = padlock.New(store, padlock.KeepStoreOpen())
	if first != nil {
		if err := first(ctx, c); err != nil {
			return nil, err
		}
	}
	work, stop := context.WithCancel(context.Background())
	c.stop = stop
	go c.work(work)
	return c, nil
}

// Close ends the work of the clerk and closes the store.
func (c *clerk) Close() error {
	c.stop()
	<-c.stopped
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	return errors.Join(c.locker.Close(ctx), c.Store.Close(), c.db.Close())
}

func (c *clerk) work(ctx context.Context) {
	defer close(c.stopped)
	for ctx.Err() == nil {
		c.n++
		level := levels[rand.IntN(len(levels))]
		way, write := checkTx, c.underLock
		if c.worker%2 == 1 {
			way, write = lockTx, c.inTransaction
		}
		// An error is part of the soak: the lock was held or lost, or the database has a fault.
		_ = write(ctx, level, rand.IntN(2), fmt.Sprintf("%s %v %d-%d-%d", way, level, c.worker, os.Getpid(), c.n))
		wait(ctx, bankQuick)
	}
}

// wait waits for up to d, or until ctx ends.
func wait(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(time.Duration(rand.Int64N(int64(d)))):
	}
}

// underLock writes an invoice in a transaction that checks a lock. Sometimes the lease ends before
// the transaction does, and sometimes the lock is released before.
func (c *clerk) underLock(ctx context.Context, level sql.IsolationLevel, series int, author string) error {
	opts := []padlock.Option{padlock.TTL(bankTTL), padlock.Wait(time.Duration(rand.IntN(2)) * 50 * time.Millisecond)}
	slow, early := rand.IntN(4) == 0, rand.IntN(3) == 0
	if slow {
		opts = append(opts, padlock.NoRenewal())
	}
	lock, err := c.locker.Acquire(ctx, nameOfSeries(series), opts...)
	if err != nil {
		return err
	}
	defer lock.Release() // the transaction has made sure of the lock
	return c.write(ctx, level, series, author, thinking(ctx, slow), func(tx *sql.Tx) error {
		err := c.CheckTx(ctx, tx, lock)
		if err == nil && early {
			_ = lock.Release() // the transaction keeps the name
		}
		return err
	})
}

// inTransaction writes an invoice in a transaction that takes the lock.
func (c *clerk) inTransaction(ctx context.Context, level sql.IsolationLevel, series int, author string) error {
	return c.write(ctx, level, series, author, thinking(ctx, rand.IntN(16) == 0), func(tx *sql.Tx) error { return c.LockTx(ctx, tx, nameOfSeries(series)) })
}

func nameOfSeries(series int) string { return "invoices " + strconv.Itoa(series) }

// levels are the isolation levels of the transactions that write invoices. The default of MariaDB
// is REPEATABLE READ, and that of PostgreSQL is READ COMMITTED.
var levels = []sql.IsolationLevel{sql.LevelDefault, sql.LevelReadUncommitted, sql.LevelReadCommitted, sql.LevelRepeatableRead, sql.LevelSerializable}

// thinking returns what a clerk does between reading and writing: it lets time pass.
func thinking(ctx context.Context, slow bool) func() error {
	return func() error {
		if wait(ctx, bankQuick); slow {
			wait(ctx, bankSlow)
		}
		return nil
	}
}

// write begins a transaction and secures the lock in it. Then it reads the next number, thinks, and
// writes the invoice with that number.
func (c *clerk) write(ctx context.Context, level sql.IsolationLevel, series int, author string, think func() error, secure func(*sql.Tx) error) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	tx, err := c.db.BeginTx(ctx, &sql.TxOptions{Isolation: level})
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if err := secure(tx); err != nil {
		return err
	}
	number, err := nextNumber(ctx, tx, series)
	if err != nil {
		return err
	}
	if err := think(); err != nil {
		return err
	}
	if err := insert(ctx, tx, invoice{series, number, author}); err != nil {
		return err
	}
	if err := c.ConfirmTx(ctx, tx); err != nil {
		return err
	}
	return tx.Commit()
}

func nextNumber(ctx context.Context, tx *sql.Tx, series int) (number int64, err error) {
	err = tx.QueryRowContext(ctx, fmt.Sprint("SELECT COALESCE(MAX(number), 0) + 1 FROM invoices WHERE series = ", series)).Scan(&number)
	return number, err
}

func insert(ctx context.Context, tx *sql.Tx, i invoice) error {
	_, err := tx.ExecContext(ctx, fmt.Sprintf("INSERT INTO invoices VALUES (%d, %d, '%s')", i.series, i.number, i.author))
	return err
}
