package login

import (
	"context"
	"database/sql/driver"
)

// A Connector is a driver.Connector whose errors are those of Explain.
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
