package soak

import (
	"math/rand/v2"
	"time"

	"github.com/padlock-go/padlock/internal/server"
)

// NetworkFaults returns the faults of connections. Each fault hits the connections of one proxy.
func NetworkFaults(proxies []*server.Proxy) []Fault {
	if len(proxies) == 0 {
		return nil
	}
	on := Targets("link", len(proxies))
	hit := func(kind string, last time.Duration, trouble func(*rand.Rand) (requests, replies server.Trouble)) Fault {
		return Fault{Kind: kind, On: on, Last: last, Grace: 4 * time.Second, Weight: 3, Begin: func(d *rand.Rand, i int) (func() error, error) {
			proxies[i].Disturb(trouble(d))
			return func() error {
				proxies[i].Disturb(server.Trouble{}, server.Trouble{})
				return nil
			}, nil
		}}
	}
	always := func(requests, replies server.Trouble) func(*rand.Rand) (server.Trouble, server.Trouble) {
		return func(*rand.Rand) (server.Trouble, server.Trouble) { return requests, replies }
	}
	lose, pass := server.Trouble{Lose: true}, server.Trouble{}
	vanish := Fault{Kind: "vanish", On: on, Grace: 6 * time.Second, Weight: 2, Begin: func(_ *rand.Rand, i int) (func() error, error) {
		proxies[i].Strand()
		return nil, nil
	}}
	return []Fault{
		vanish,
		hit("latency", time.Second, func(d *rand.Rand) (server.Trouble, server.Trouble) {
			slow := server.Trouble{Delay: time.Duration(5+d.IntN(200)) * time.Millisecond, Jitter: time.Duration(d.IntN(50)) * time.Millisecond}
			return slow, slow
		}),
		hit("cut", 1500*time.Millisecond, always(lose, lose)),
		hit("lost replies", time.Second, always(pass, lose)),
		hit("lost requests", time.Second, always(lose, pass)),
		hit("reset", 300*time.Millisecond, always(pass, server.Trouble{Reset: true})),
	}
}
