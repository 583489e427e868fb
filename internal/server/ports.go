package server

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
)

// Ports are taken below the range that kernels use for the local ports of outgoing connections, so
// that no connection has the port.
const (
	lowestPort  = 10_000
	highestPort = 31_999
)

// A reservation is a TCP port that no other test process on this machine takes while the
// reservation lasts. It holds the UDP port of the same number: servers do not use that port, and it
// is free again when its process dies in any way. Without reservations two tests could take one
// port, and the server of one test would answer the readiness probe of the other.
type reservation struct {
	port int
	held net.PacketConn
}

// taken are the ports that this process has used. It uses no port twice: a client of one test's
// server would take the server of the next test for its own one, restarted and empty.
var taken sync.Map

func reserve() (reservation, error) {
	var last error
	for range 200 {
		port := lowestPort + rand.IntN(highestPort-lowestPort+1)
		if _, had := taken.LoadOrStore(port, true); had {
			continue
		}
		r, err := reservePort(port)
		if err == nil {
			return r, nil
		}
		last = err
	}
	return reservation{}, fmt.Errorf("no free port: %w", last)
}

func reservePort(port int) (reservation, error) {
	addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	held, err := net.ListenPacket("udp", addr)
	if err != nil {
		return reservation{}, err
	}
	probe, err := net.Listen("tcp", addr)
	if err != nil {
		return reservation{}, errors.Join(err, held.Close())
	}
	return reservation{port, held}, probe.Close()
}

func (r reservation) release() error { return r.held.Close() }
