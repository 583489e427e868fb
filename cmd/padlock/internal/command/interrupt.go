package command

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
)

// interruptible returns a context that ends when this program gets a signal to end. A wait then
// ends cleanly, and a lock that is granted at that moment is released. The function stop returns
// the signal that came, or nil.
func interruptible(from context.Context) (ctx context.Context, stop func() os.Signal) {
	ctx, cancel := context.WithCancel(from)
	c := make(chan os.Signal, 1)
	for _, s := range []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP} {
		if !signal.Ignored(s) { // an ignored signal, as with nohup, stays ignored
			signal.Notify(c, s)
		}
	}
	var came atomic.Value
	go func() {
		select {
		case s := <-c:
			came.Store(s)
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, func() os.Signal {
		cancel()
		signal.Stop(c)
		s, _ := came.Load().(os.Signal)
		return s
	}
}

// interruptedBy returns the failure of a command that got a signal while it waited for a lock.
func interruptedBy(s os.Signal, name string) *failure {
	status := 128
	if n, ok := s.(syscall.Signal); ok {
		status += int(n)
	}
	return fail(status, "interrupted", name, "%s while waiting for %s; nothing is held", s, show(name))
}

// interruptedRequest returns the failure for a request that a signal interrupted before the store
// replied. The parameter participle is for the message, for example "released".
func interruptedRequest(s os.Signal, name, participle string) *failure {
	why := interruptedBy(s, name)
	why.note.Message = fmt.Sprintf("%s while %s was being %s; it is unknown whether it was %s; try again", s, show(name), participle, participle)
	return why
}
