package sqlstore_test

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/stores/sqlstore"
	"github.com/padlock-go/padlock/stores/sqlstore/symfony"
)

// silent is a database that never answers.
type silent struct{}

func (silent) Connect(ctx context.Context) (sqldriver.Conn, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func (silent) Driver() sqldriver.Driver { return nil }

// Opening a store in a silent database ends, even if the caller sets no deadline. The error says
// that the database is silent, and does not look like the end of the caller's context.
func TestOpeningASilentDatabase(t *testing.T) {
	for what, open := range map[string]func(context.Context, *sql.DB) error{
		"sqlstore": func(ctx context.Context, db *sql.DB) error {
			_, err := sqlstore.Open(ctx, db, sqlstore.PostgreSQL)
			return err
		},
		"symfony": func(ctx context.Context, db *sql.DB) error {
			_, err := symfony.Open(ctx, db, sqlstore.MySQL, symfony.Symfony)
			return err
		},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				db := sql.OpenDB(silent{})
				defer db.Close()
				err := open(t.Context(), db)
				if !errors.Is(err, driver.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "did not answer within 10s") {
					t.Errorf("%v", err)
				}
			})
		})
	}
}
