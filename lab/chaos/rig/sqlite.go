package rig

import (
	"context"
	"database/sql"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"

	"modernc.org/sqlite"

	"github.com/padlock-go/padlock/lab/soak"
)

const fileReplaced = "file replaced"

// backupFaults returns two ways in which a copy of a while ago comes back while programs use the
// file. In the first, SQLite writes the copy into the file, as .restore of its shell does. In the
// second, the copy takes the place of the file. Programs that have the old file open go on with it.
func (d *database) backupFaults(url, dir string) []soak.Fault {
	file, kept := filepath.Join(dir, "locks.db"), filepath.Join(dir, "backup.db")
	fault := func(kind string, back func()) soak.Fault {
		return soak.Fault{Kind: kind, Last: 2 * time.Second, Grace: 6 * time.Second, Begin: begin(func(*rand.Rand, int) func() {
			must(d.administer(url, func(ctx context.Context, conn *sql.Conn) error {
				return execute(ctx, conn, []string{"VACUUM INTO '" + strings.ReplaceAll(kept, "'", "''") + "'"})
			}))
			return func() {
				back()
				must(os.RemoveAll(kept))
			}
		})}
	}
	return []soak.Fault{
		fault(backupKind, func() {
			must(d.administer(url, func(ctx context.Context, conn *sql.Conn) error { return restore(ctx, conn, kept) }))
		}),
		fault(fileReplaced, func() {
			must(errors.Join(os.RemoveAll(file+"-wal"), os.RemoveAll(file+"-shm"), os.Rename(kept, file)))
		}),
	}
}

// restore writes the contents of the database at path into that of the connection. It waits for the
// transactions of others.
func restore(ctx context.Context, conn *sql.Conn, path string) error {
	return conn.Raw(func(c any) error {
		work, err := c.(interface {
			NewRestore(path string) (*sqlite.Backup, error)
		}).NewRestore(path)
		if err != nil {
			return err
		}
		for more := true; more && ctx.Err() == nil; {
			if more, err = work.Step(-1); err != nil {
				more = true // others write
			}
		}
		return errors.Join(ctx.Err(), work.Finish())
	})
}
