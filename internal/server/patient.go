package server

import (
	"context"
	"net"
	"time"
)

// patience is how long a connection of PatientDial lets a server be silent.
const patience = 30 * time.Second

// PatientDial connects as a net.Dialer does, for a store whose test is not about silent servers. On
// a busy machine, a server or the test itself may stand still for longer than a store of Redis
// waits for a reply. The store measures that with deadlines for reads. On this connection, each of
// them ends only after half a minute.
func PatientDial(ctx context.Context, network, addr string) (net.Conn, error) {
	c, err := new(net.Dialer).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return patientConn{c}, nil
}

type patientConn struct{ net.Conn }

// SetReadDeadline puts the deadline off.
func (c patientConn) SetReadDeadline(at time.Time) error {
	if !at.IsZero() {
		at = time.Now().Add(patience)
	}
	return c.Conn.SetReadDeadline(at)
}
