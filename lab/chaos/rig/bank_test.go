package rig

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/lab/soak"
)

// openInTest is like Open, and also knows the workers of TestBankFindsTwoHolders.
func openInTest(ctx context.Context, config string) (driver.Store, error) {
	if words := strings.Fields(config); words[0] == carelessWord {
		return openBank(ctx, words[1:], writeTwice)
	}
	return Open(ctx, config)
}

const carelessWord = "careless"

// writeTwice writes an invoice in a transaction that calls neither CheckTx nor ConfirmTx: between its
// reading and its writing the lock is released, and the next holder writes an invoice, too. One
// worker does so, with a series that nobody else writes.
func writeTwice(ctx context.Context, c *clerk) error {
	if c.worker > 0 {
		return nil
	}
	return c.writeUnchecked(ctx, "first", func() error {
		return c.writeUnchecked(ctx, "second", func() error { return nil })
	})
}

// writeUnchecked takes the lock of the series 2, and releases it between reading and writing.
func (c *clerk) writeUnchecked(ctx context.Context, author string, between func() error) error {
	const series = 2
	lock, err := c.locker.TryAcquire(ctx, nameOfSeries(series))
	if err != nil {
		return err
	}
	tx, err := c.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	number, err := nextNumber(ctx, tx, series)
	if err != nil {
		return err
	}
	if err := lock.Release(); err != nil {
		return err
	}
	if err := between(); err != nil {
		return err
	}
	if err := insert(ctx, tx, invoice{series, number, author}); err != nil {
		return err
	}
	return tx.Commit()
}

// TestBankFindsTwoHolders: the row with invoices notices that two transactions do not exclude each
// other.
func TestBankFindsTwoHolders(t *testing.T) {
	t.Parallel()
	row := Row{Name: "PostgreSQL without CheckTx", build: bank(postgreSQL, carelessWord)}
	needs(t, row)
	_, out, err := row.Run(t.Context(), Options{Seed: 1, For: time.Second, Tail: time.Second, Every: 300 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(out.Events, func(e soak.Event) bool {
		return e.Op == soak.Broken && strings.HasPrefix(e.Err, "I1 invoice 1 was written twice, by first")
	}) {
		t.Fatal("no invoice was written twice")
	}
}

// TestAudit shows each kind of violation to audit.
func TestAudit(t *testing.T) {
	for _, c := range []struct {
		all  []invoice
		want string
	}{
		{[]invoice{{0, 1, "CheckTx a"}, {0, 2, "LockTx b"}, {1, 1, "LockTx c"}}, ""},
		{[]invoice{{0, 1, "CheckTx a"}, {0, 2, "LockTx b"}, {0, 2, "CheckTx c"}}, "I1 invoice 2 was written twice, by LockTx b and CheckTx c"},
		{[]invoice{{0, 1, "CheckTx a"}, {0, 2, "LockTx b"}, {0, 4, "CheckTx c"}}, "I1 no invoice has the number 3"},
		{[]invoice{{0, 1, "CheckTx a"}, {0, 2, "LockTx b"}, {1, 2, "CheckTx c"}}, "I1 no invoice has the number 1"},
	} {
		got, err := audit(c.all)
		if err != nil || got != c.want {
			t.Errorf("%v: %q, %v; want %q", c.all, got, err, c.want)
		}
	}
	if _, err := audit(nil); err == nil {
		t.Error("no invoice at all")
	}
}
