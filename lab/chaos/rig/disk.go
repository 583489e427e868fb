package rig

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/lab/soak"
)

// A disk describes the small disk on which the database of a Row stores its data.
type disk struct {
	size int // in MB; 0 means that the database has no disk of its own
	// sqlBefore runs before the disk is filled. sqlAfter runs when the disk is full, but only in
	// half of the cases, at random. Both make sure that the next change of the database needs more
	// room on the disk.
	sqlBefore, sqlAfter string
}

// smallDisk mounts a file system in memory, of the given size in MB, and returns its directory. It
// returns "" if size is 0 or this process is not allowed to mount. Then the run has no fault that
// fills a disk.
func (s *Site) smallDisk(size int) string {
	if size == 0 || runtime.GOOS != "linux" || os.Geteuid() != 0 {
		return ""
	}
	dir := filepath.Join(s.dir, "disk")
	must(errors.Join(os.Chmod(s.dir, 0o711), os.Mkdir(dir, 0o711)))
	if err := exec.Command("mount", "-t", "tmpfs", "-o", fmt.Sprintf("size=%dm,mode=711", size), "padlock-chaos", dir).Run(); err != nil {
		return "" // a container without the right to mount
	}
	s.host.Cleanup(func() { _ = exec.Command("umount", "-l", dir).Run() }) // if this fails, the files stay in memory only
	return dir
}

const diskFull = "disk full"

// fill returns a fault that fills the disk and frees the room later. A server may stop because it
// has no room. In that case, fill starts the server again. srv is nil if the database is a file.
func (d *database) fill(admin, dir string, srv *server.Server) soak.Fault {
	ballast := filepath.Join(dir, "ballast")
	return soak.Fault{Kind: diskFull, Last: tableLocked, Grace: 8 * time.Second, Weight: 2, Begin: begin(func(dice *rand.Rand, _ int) func() {
		d.say(admin, d.disk.sqlBefore)
		must(fillFile(ballast))
		if dice.IntN(2) == 0 {
			d.say(admin, d.disk.sqlAfter)
		}
		return func() {
			must(os.Remove(ballast))
			if srv != nil {
				must(d.revive(admin, srv))
			}
		}
	})}
}

// say runs SQL. It ignores errors, because the disk may be full, another connection may be writing
// to the database, or the statement may end its own connection.
func (d *database) say(admin, text string) {
	if text == "" {
		return
	}
	_ = d.administer(admin, func(ctx context.Context, conn *sql.Conn) error {
		_, err := conn.ExecContext(ctx, text)
		return err
	})
}

// fillFile writes a file until the disk is full.
func fillFile(path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	for size := 1 << 20; size > 0; {
		if _, err := f.Write(make([]byte, size)); errors.Is(err, syscall.ENOSPC) {
			size /= 16
		} else if err != nil {
			return err
		}
	}
	return nil
}

// revive starts the server again if it does not answer.
func (d *database) revive(admin string, srv *server.Server) error {
	for range 3 {
		if d.administer(admin, func(ctx context.Context, conn *sql.Conn) error { return conn.PingContext(ctx) }) == nil {
			return nil
		}
		time.Sleep(100 * time.Millisecond)
	}
	fmt.Fprintf(os.Stderr, "%s has ended and is started again\n", admin)
	return try(func() { startAgain(srv) })
}

// fillTable returns a fault that fills the file in which the server keeps all tables. It adds rows
// to a table that padlock does not use. The size of the file is limited, so the server then has no
// room for any change.
func (d *database) fillTable(admin string) soak.Fault {
	const drop = "DROP TABLE IF EXISTS ballast"
	return soak.Fault{Kind: diskFull, Last: tableLocked, Grace: 6 * time.Second, Weight: 2, Begin: begin(func(*rand.Rand, int) func() {
		must(d.administer(admin, func(ctx context.Context, conn *sql.Conn) error {
			err := execute(ctx, conn, []string{drop, "CREATE TABLE ballast (x varbinary(7000)) ENGINE=InnoDB"})
			for rows := 512; rows > 0 && err == nil; {
				if _, bad := conn.ExecContext(ctx, fmt.Sprintf("INSERT INTO ballast SELECT REPEAT('x', 7000) FROM seq_1_to_%d", rows)); bad != nil {
					rows /= 4
				}
			}
			return err
		}))
		return func() {
			must(d.administer(admin, func(ctx context.Context, conn *sql.Conn) error {
				for { // the statement needs a little room, and the server's own clean-up frees some
					err := execute(ctx, conn, []string{drop})
					if err == nil || ctx.Err() != nil {
						return err
					}
					time.Sleep(10 * time.Millisecond)
				}
			}))
		}
	})}
}
