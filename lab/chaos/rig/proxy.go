package rig

import (
	"math/rand/v2"
	"time"

	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/lab/soak"
)

// proxy starts a proxy to a server. It ends with the site.
func (s *Site) proxy(upstream string) (p *server.Proxy, err error) {
	err = try(func() { p = server.NewProxy(&s.host, upstream) })
	return p, err
}

// linkTarget is the prefix of the names of connections as targets of faults.
const linkTarget = "link"

// networkFaults returns the faults of the connections between workers and servers. Each fault hits
// the connections of one worker to one server. The first index of links is the worker.
func networkFaults(links [][]*server.Proxy) []soak.Fault {
	var all []*server.Proxy
	for _, worker := range links {
		all = append(all, worker...)
	}
	on := soak.Targets(linkTarget, len(all))
	hit := func(kind string, last time.Duration, trouble func(*rand.Rand) (requests, replies server.Trouble)) soak.Fault {
		return soak.Fault{Kind: kind, On: on, Last: last, Grace: 4 * time.Second, Weight: 3, Begin: func(d *rand.Rand, i int) (func() error, error) {
			all[i].Disturb(trouble(d))
			return func() error {
				all[i].Disturb(server.Trouble{}, server.Trouble{})
				return nil
			}, nil
		}}
	}
	always := func(requests, replies server.Trouble) func(*rand.Rand) (server.Trouble, server.Trouble) {
		return func(*rand.Rand) (server.Trouble, server.Trouble) { return requests, replies }
	}
	lose, pass := server.Trouble{Lose: true}, server.Trouble{}
	return []soak.Fault{
		hit("latency", time.Second, func(d *rand.Rand) (server.Trouble, server.Trouble) {
			slow := server.Trouble{Delay: ms(5 + d.IntN(200)), Jitter: ms(d.IntN(50))}
			return slow, slow
		}),
		hit("cut", 1500*time.Millisecond, always(lose, lose)),
		hit("lost replies", time.Second, always(pass, lose)),
		hit("lost requests", time.Second, always(lose, pass)),
		hit("reset", 300*time.Millisecond, always(pass, server.Trouble{Reset: true})),
	}
}

func ms(n int) time.Duration { return time.Duration(n) * time.Millisecond }
