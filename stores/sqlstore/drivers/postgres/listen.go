package postgres

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/padlock-go/padlock/internal/login"
)

// A listener listens on a connection of its own.
type listener struct{ c *connector }

const (
	probeTime = 2 * time.Second // how long a notification may take to come back
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
		n, err := conn.WaitForNotification(ctx)
		if err != nil {
			return err
		}
		notify(n.Payload)
	}
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
