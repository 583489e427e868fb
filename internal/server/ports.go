package server

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
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

// taken are the ports that this process has had. None is taken twice: what
// knew the server of one test would take that of the next for the same one,
// restarted and empty.
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
