package sqlstore_test

import (
	"bytes"
	"net/url"
	"strings"
	"testing"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/server"
)

// lostReply: the reply to the statement that hands the name over is lost. The next holder is
// notified all the same.
func lostReply(t *testing.T, d database) {
	far, proxy := behindProxy(t, d)
	a, _ := far.pushed(t)
	b, deaf := d.pushed(t)
	const name = "lost reply"
	a.take(t, name, driver.Request{})
	got := make(chan grant, 1)
	b.lineUp(t, name, "b", 1, got)
	deaf.deaf.Store(true) // it counts the notifications, and b finds the free name by itself
	proxy.LoseReply(func(request []byte) bool { return bytes.Contains(request, []byte("SKIP LOCKED")) })
	if _, err := a.store.Release(t.Context(), name, "token of "+name, 0); err == nil {
		t.Error("the reply was not lost")
	}
	eventually(t, "the waiter is notified", func() bool { return deaf.ignored.Load() > 0 })
	noError(t, (<-got).err)
}

// lostClaim: the name is handed over, and the reply to the waiter's claim is lost. The waiter has
// the name all the same, and not only after the lease of a hold of nobody.
func lostClaim(t *testing.T, d database) {
	far, proxy := behindProxy(t, d)
	a, _ := d.pushed(t)
	b, _ := far.pushed(t)
	const name = "lost claim"
	a.take(t, name, driver.Request{})
	got := make(chan grant, 1)
	b.lineUp(t, name, "b", 1, got)
	lost := make(chan struct{})
	proxy.LoseReply(func(request []byte) bool {
		chosen := bytes.Contains(request, []byte("version + 1, reserved = 0"))
		if chosen {
			close(lost)
		}
		return chosen
	})
	_, err := a.store.Release(t.Context(), name, "token of "+name, 0)
	noError(t, err)
	<-lost
	one := <-got
	noError(t, one.err)
	if one.token != name+" b#0" || one.g.Fence != one.reserved.Fence || one.g.TTL <= driver.MaxReservation {
		t.Errorf("the waiter got %+v", one)
	}
}

// behindProxy returns the database as it is reached by a proxy, with the text of each statement in
// its request.
func behindProxy(t *testing.T, d database) (database, *server.Proxy) {
	t.Helper()
	there, err := url.Parse(d.dsn)
	noError(t, err)
	proxy := server.NewProxy(t, there.Host)
	d.dsn = strings.Replace(d.dsn, there.Host, proxy.Addr(), 1) + "&default_query_exec_mode=exec"
	return d, proxy
}
