package rig

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/lab/soak"
)

// bank returns the setup of a row in which each process also writes invoices, in transactions of
// its own. Half of the processes check a lock in the transaction (CheckTx), and the others take the
// lock there (LockTx). The process that has the lock reads the highest number of the invoices and
// writes the next one. So if two transactions have the lock at once, two invoices get the same
// number.
//
// The argument word is the first word of the configuration: bankWord, or another one in a test.
func bank(d database, word string) func(*Site) (*setup, error) {
	return func(s *Site) (*setup, error) {
		s.Workers = 8
		set, err := inDatabase(d)(s)
		if err != nil {
			return nil, err
		}
		url := set.stages[0][0]
		if err := d.administer(url, func(ctx context.Context, conn *sql.Conn) error {
			return execute(ctx, conn, []string{"CREATE TABLE invoices (series int NOT NULL, number bigint NOT NULL, author varchar(64) NOT NULL)"})
		}); err != nil {
			return nil, err
		}
		for w, url := range set.stages[0] {
			set.stages[0][w] = strings.Join([]string{word, strconv.Itoa(w), url}, " ")
		}
		open := set.open
		set.open = func(ctx context.Context, config string) (driver.Store, error) { // the engine writes no invoices
			return open(ctx, config[strings.LastIndexByte(config, ' ')+1:])
		}
		set.goroutines, set.load = 2, func(l *soak.Load) { l.Warm = 64 } // less other work
		// An administrator who locks the table would wait for the transactions, and they for him.
		set.faults = slices.DeleteFunc(set.faults, func(f soak.Fault) bool { return f.Kind == "table locked" })
		set.check = func(out *soak.Outcome) (string, error) {
			var all []invoice
			if err := d.administer(url, func(ctx context.Context, conn *sql.Conn) (err error) {
				all, err = readInvoices(ctx, conn)
				return err
			}); err != nil {
				return "", err
			}
			return audit(all)
		}
		return set, nil
	}
}

// bankWord begins the configuration of a worker that writes invoices.
const bankWord = "bank"

// An invoice is a row of the table of invoices. The author says how the transaction had the lock,
// and which one it was.
type invoice struct {
	series int
	number int64
	author string
}

// The ways to have the lock in a transaction.
const (
	checkTx = "CheckTx"
	lockTx  = "LockTx"
)

func readInvoices(ctx context.Context, conn *sql.Conn) (all []invoice, err error) {
	rows, err := conn.QueryContext(ctx, "SELECT series, number, author FROM invoices ORDER BY series, number, author")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var i invoice
		if err := rows.Scan(&i.series, &i.number, &i.author); err != nil {
			return nil, err
		}
		all = append(all, i)
	}
	return all, rows.Err()
}

// audit returns a text about the numbers that two invoices have, or that no invoice has. It returns
// "" if there is no such number. The invoices are in the order of their numbers.
func audit(all []invoice) (broken string, err error) {
	ways := map[string]int{}
	var last invoice
	for _, i := range all {
		way, _, _ := strings.Cut(i.author, " ")
		ways[way]++
		if i.series != last.series {
			last = invoice{series: i.series}
		}
		if i.number == last.number {
			return fmt.Sprintf("I1 invoice %d was written twice, by %s and %s", i.number, last.author, i.author), nil
		}
		if i.number != last.number+1 {
			return fmt.Sprintf("I1 no invoice has the number %d", last.number+1), nil
		}
		last = i
	}
	if ways[checkTx] == 0 || ways[lockTx] == 0 {
		return "", fmt.Errorf("%d invoices by CheckTx and %d by LockTx: the two did not meet", ways[checkTx], ways[lockTx])
	}
	return "", nil
}

// Times of the invoices. A lease is so short that it often ends inside of a transaction.
const (
	bankTTL   = 300 * time.Millisecond
	bankQuick = 5 * time.Millisecond
	bankSlow  = 500 * time.Millisecond
)
