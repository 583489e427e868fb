package server

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

// Ports are taken below the range from which kernels draw the local ports of
// outgoing connections, so that none of those can be in the way.
const (
	lowestPort  = 10_000
	highestPort = 31_999
)

// A reservation is a TCP port that no other test process on this machine picks
// while it lasts. The UDP port of the same number is what is held: servers
// leave it alone, and it is free again when its holder dies, however it dies.
// Without it two tests could choose one port, and one of them would find its
// readiness probe answered by the server of the other.
type reservation struct {
	port int
	held net.PacketConn
}

func reserve() (reservation, error) {
	var last error
	for range 200 {
		r, err := reservePort(lowestPort + rand.IntN(highestPort-lowestPort+1))
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
