package web

import (
	"syscall"
	"testing"

	"github.com/padlock-go/padlock/internal/integration/browser"
	"github.com/padlock-go/padlock/internal/server"
)

// TestStale: the page says "live" only while it is. It notices a server that hangs and a store that
// cannot be read, says so to a screen reader too, and recovers by itself.
func TestStale(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	redis := server.Redis(t, server.RedisOptions{})
	p.env = append(p.env, "PADLOCK_STORE="+redis.URL()+"?max-ttl=10m")
	s := p.serve()
	p.run("--ttl", "10m", "nightly")
	tab := browser.Start(t).Open(s.url)
	tab.Until(isLive + " && " + shows("nightly"))
	const state = `document.getElementById("connection").textContent`
	const spoken = `document.querySelector("[aria-live=polite]").textContent`

	redis.Pause()
	tab.Until(state + ` === "stale" && !(` + isLive + `) && ` + spoken + ` === "The store cannot be read."`)
	tab.Until(`!document.querySelector("footer").innerText.includes("requests a second")`)
	redis.Resume()
	tab.Until(isLive + " && " + spoken + ` === "1 name is held."`)

	if err := s.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	tab.Until(`/^no answer for [0-9]+ s$/.test(` + state + `) && !(` + isLive + `) && ` + spoken + ` === "The server does not answer."`)
	tab.Until(`!document.getElementById("old").hidden`)
	if err := s.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	tab.Until(isLive + " && " + spoken + ` === "1 name is held." && document.getElementById("old").hidden`)
}
