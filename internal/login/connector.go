package login

import (
	"context"
	"database/sql/driver"
)

// A Connector makes connections with Inner. It passes the errors of Inner through Explain.
type Connector struct {
	Inner driver.Connector
	// Secrets returns the user and the password.
	Secrets func() []string
}

// Connect implements driver.Connector.
func (c Connector) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Inner.Connect(ctx)
	if err != nil {
		return nil, Explain(err, c.Secrets()...)
	}
	return conn, nil
}

// Driver implements driver.Connector.
func (c Connector) Driver() driver.Driver { return c.Inner.Driver() }
