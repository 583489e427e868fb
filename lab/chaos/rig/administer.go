package rig

import (
	"context"
	"database/sql"
	"time"
)

// administer calls f with a connection that goes to the database directly, not through the proxy of
// a worker.
func (d *database) administer(url string, f func(ctx context.Context, conn *sql.Conn) error) error {
	db, _, err := d.open(url)
	if err != nil {
		return err
	}
	defer db.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	return f(ctx, conn)
}

func execute(ctx context.Context, conn *sql.Conn, statements []string) error {
	for _, text := range statements {
		for {
			_, err := conn.ExecContext(ctx, text)
			if err == nil {
				break
			}
			if ctx.Err() != nil || text != "BEGIN IMMEDIATE" {
				return err
			}
		}
	}
	return nil
}
