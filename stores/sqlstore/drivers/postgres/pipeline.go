package postgres

import (
	"context"
	"database/sql"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/padlock-go/padlock/stores/sqlstore"
)

// SendBoth implements sqlstore.Pipeliner. It needs prepared statements, which a connection behind a
// pooler does not have.
func (l *listener) SendBoth(ctx context.Context, conn *sql.Conn, one, two sqlstore.Statement) (values []string, first, second error) {
	err := conn.Raw(func(inner any) error {
		if c, ok := inner.(plainConn); ok {
			inner = c.Conn
		}
		c, ok := inner.(*stdlib.Conn) // as a pool that padlock has not opened has it
		if !ok {
			return errors.ErrUnsupported
		}
		conn := c.Conn()
		if conn.Config().DefaultQueryExecMode != pgx.QueryExecModeCacheStatement {
			return errors.ErrUnsupported
		}
		values, first, second = sendBoth(ctx, conn, one, two)
		return nil
	})
	if err != nil {
		return nil, err, err
	}
	return values, first, second
}

func sendBoth(ctx context.Context, conn *pgx.Conn, one, two sqlstore.Statement) (values []string, first, second error) {
	var prepared [2]*pgconn.StatementDescription
	for i, st := range []sqlstore.Statement{one, two} {
		var err error
		if prepared[i], err = conn.Prepare(ctx, st.Text, st.Text); err != nil {
			return nil, err, err
		}
	}
	line := conn.PgConn().StartPipeline(ctx)
	line.SendQueryStatement(prepared[0], raw(one.Params), nil, nil)
	line.SendPipelineSync()
	line.SendQueryStatement(prepared[1], raw(two.Params), nil, nil)
	if err := line.Sync(); err != nil {
		return nil, err, err
	}
	values, first = oneRow(line)
	if first != nil && !isReply(first) {
		line.Close()
		return nil, first, first
	}
	return values, first, line.Close()
}

// oneRow reads the reply to the first statement.
func oneRow(line *pgconn.Pipeline) (values []string, err error) {
	results, err := line.GetResults()
	if err != nil {
		return nil, err
	}
	rows, ok := results.(*pgconn.ResultReader)
	if !ok {
		return nil, errors.New("the server sent a reply that does not belong to a statement")
	}
	for rows.NextRow() {
		values = nil
		for _, v := range rows.Values() {
			values = append(values, string(v))
		}
	}
	_, err = rows.Close()
	return values, err
}

// isReply reports whether err is a reply of the server.
func isReply(err error) bool {
	var refused *pgconn.PgError
	return errors.As(err, &refused)
}

func raw(params []string) [][]byte {
	out := make([][]byte, len(params))
	for i, p := range params {
		out[i] = []byte(p)
	}
	return out
}
