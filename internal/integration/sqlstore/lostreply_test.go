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
	there, err := url.Parse(d.dsn)
	noError(t, err)
	addr := there.Host
	proxy := server.NewProxy(t, addr)
	far := d
	far.dsn = strings.Replace(d.dsn, addr, proxy.Addr(), 1) + "&default_query_exec_mode=exec"
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
