package postgres

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/padlock-go/padlock/internal/login"
)

// A listener listens on a connection of its own.
type listener struct {
	c *connector

	// After quiet without a notification, Listen asks the server, which has to answer within reply.
	quiet, reply time.Duration
}

const (
	quietTime = 5 * time.Second
	probeTime = 2 * time.Second // how long the server has to answer, and a notification to come back
	// If the pooler loses notifications, Listen tests it again after retryTest.
	retryTest = 10 * time.Minute
)

// Listen implements sqlstore.Listener. Behind a pooler, Listen first sends a notification to its
// own connection. If the pooler runs each transaction in another process of the server, that
// notification does not arrive. Waiters then poll.
func (l *listener) Listen(ctx context.Context, channel string, ready func(), notify func(payload string)) error {
	conn, way, err := l.connect(ctx)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if _, err := conn.Exec(ctx, "LISTEN "+pgx.Identifier{channel}.Sanitize()); err != nil {
		return err
	}
	if way == pooled && !l.notificationArrives(ctx, conn, channel) {
		conn.Close(ctx)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(retryTest):
			return errDeaf
		}
	}
	ready()
	for {
		n, err := l.next(ctx, conn)
		switch {
		case err != nil:
			return err
		case n != nil:
			notify(n.Payload)
		}
	}
}

// next waits for a notification. If none arrives for some time, next asks the server: the session
// may have ended without a word to this process, as behind a firewall or a proxy that forgot the
// connection. If the server answers, next returns nil.
func (l *listener) next(ctx context.Context, conn *pgx.Conn) (*pgconn.Notification, error) {
	wait, cancel := context.WithTimeout(ctx, l.quiet)
	defer cancel()
	n, err := conn.WaitForNotification(wait)
	if err == nil || ctx.Err() != nil || conn.IsClosed() {
		return n, err
	}
	ask, cancel := context.WithTimeout(ctx, l.reply)
	defer cancel()
	return nil, conn.Ping(ask)
}

var errDeaf = errors.New("the pooler lets no notifications pass")

func (l *listener) connect(ctx context.Context) (*pgx.Conn, int32, error) {
	cfg := l.c.cfg.Copy()
	if err := l.c.prepare(cfg, unknown); err != nil {
		return nil, unknown, err
	}
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return nil, unknown, login.Hide(plain(err), l.c.secrets()...)
	}
	way, err := findPath(ctx, conn)
	if err != nil {
		conn.Close(context.WithoutCancel(ctx))
	}
	return conn, way, err
}

// notificationArrives reports whether this connection receives a notification that another
// connection sends.
func (l *listener) notificationArrives(ctx context.Context, conn *pgx.Conn, channel string) bool {
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	sender, _, err := l.connect(ctx)
	if err != nil {
		return false
	}
	defer sender.Close(context.WithoutCancel(ctx))
	probe := "probe-" + rand.Text() // a single word, which waiters ignore
	if _, err := sender.Exec(ctx, "SELECT pg_notify($1, $2)", channel, probe); err != nil {
		return false
	}
	for {
		n, err := conn.WaitForNotification(ctx)
		if err != nil {
			return false
		}
		if n.Payload == probe {
			return true
		}
	}
}
