package rig

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"

	"github.com/padlock-go/padlock/internal/soak"
)

// proxy stands between one worker and one server.
type proxy struct{ *toxiproxy.Proxy }

func (s *Site) proxy(upstream string) (proxy, error) {
	if s.toxic == nil {
		s.toxic = toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	}
	p := toxiproxy.NewProxy(s.toxic, fmt.Sprint("link", len(s.host.ends)), "127.0.0.1:0", upstream)
	if err := p.Start(); err != nil {
		return proxy{}, err
	}
	s.host.Cleanup(func() { returnsWithin(5*time.Second, p.Stop) })
	return proxy{p}, nil
}

// point makes new connections go to another address and cuts the existing ones.
func (p proxy) point(upstream string) error {
	return p.Update(&toxiproxy.Proxy{Listen: p.Listen, Upstream: upstream, Enabled: true})
}

// poison adds faults, which toxiproxy calls toxics, to the connections through the proxy. A toxic
// is given as its type, direction and attributes. The function that poison returns removes the
// toxics.
func (p proxy) poison(toxics ...[3]string) (func() error, error) {
	for _, t := range toxics {
		text := fmt.Sprintf(`{"type": %q, "stream": %q, "attributes": {%s}}`, t[0], t[1], t[2])
		if _, err := p.Toxics.AddToxicJson(strings.NewReader(text)); err != nil {
			return nil, err
		}
	}
	return func() error {
		if !returnsWithin(40*time.Second, func() { p.Toxics.ResetToxics(context.Background()) }) {
			return ErrProxyStuck
		}
		return nil
	}, nil
}

// ErrProxyStuck means that toxiproxy did not end a fault. toxiproxy sometimes deadlocks. Then the
// run proves nothing and has to be repeated.
var ErrProxyStuck = errors.New("toxiproxy does not end a fault")

// returnsWithin reports whether f returns in time. If not, f continues in the background.
func returnsWithin(d time.Duration, f func()) bool {
	done := make(chan struct{})
	go func() { defer close(done); f() }()
	select {
	case <-done:
		return true
	case <-time.After(d):
		return false
	}
}

const (
	down = "downstream" // replies
	up   = "upstream"
)

// networkFaults returns the faults of the connections between workers and servers. Each fault hits
// the connection of one worker to one server.
func networkFaults(links [][]proxy) []soak.Fault {
	var all []proxy
	for _, worker := range links {
		all = append(all, worker...)
	}
	on := soak.Targets("link", len(all))
	hit := func(kind string, last time.Duration, toxics func(*rand.Rand) [][3]string) soak.Fault {
		return soak.Fault{Kind: kind, On: on, Last: last, Grace: 4 * time.Second, Weight: 3, Begin: func(d *rand.Rand, i int) (func() error, error) {
			return all[i].poison(toxics(d)...)
		}}
	}
	return []soak.Fault{
		hit("latency", time.Second, func(d *rand.Rand) [][3]string {
			how := fmt.Sprintf(`"latency": %d, "jitter": %d`, 5+d.IntN(200), d.IntN(50))
			return [][3]string{{"latency", up, how}, {"latency", down, how}}
		}),
		hit("cut", 1500*time.Millisecond, func(*rand.Rand) [][3]string {
			return [][3]string{{"timeout", up, `"timeout": 0`}, {"timeout", down, `"timeout": 0`}}
		}),
		hit("lost replies", time.Second, func(*rand.Rand) [][3]string {
			return [][3]string{{"timeout", down, `"timeout": 0`}}
		}),
		hit("lost requests", time.Second, func(*rand.Rand) [][3]string {
			return [][3]string{{"timeout", up, `"timeout": 0`}}
		}),
		hit("reset", 300*time.Millisecond, func(*rand.Rand) [][3]string {
			return [][3]string{{"reset_peer", down, `"timeout": 0`}}
		}),
	}
}
