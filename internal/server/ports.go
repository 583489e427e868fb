package server

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
)

// The ports are below the range from which kernels choose local ports for outgoing connections, so
// no outgoing connection can occupy one of them.
const (
	lowestPort  = 10_000
	highestPort = 31_999
)

// A reservation keeps other test processes on this machine from taking a TCP port. It holds the UDP
// port of the same number. Servers do not use that UDP port, and it becomes free when this process
// dies in any way. Without reservations two tests could take the same port, and the server of one
// test would answer the readiness probe of the other.
type reservation struct {
	port int
	held net.PacketConn
}

// usedPorts are the ports that this process has used. It never uses a port twice. Otherwise a
// client of one test could reach the server of the next test. The client would then conclude that
// its own server had restarted and lost its data.
var usedPorts sync.Map

func reserve() (reservation, error) {
	var last error
	for range 200 {
		port := lowestPort + rand.IntN(highestPort-lowestPort+1)
		if _, had := usedPorts.LoadOrStore(port, true); had {
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
