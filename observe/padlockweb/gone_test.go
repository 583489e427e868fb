package padlockweb_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/observe/padlockweb"
	"github.com/padlock-go/padlock/stores/memstore"
)

// leaving is a store whose visitor goes away while the store breaks a lock.
type leaving struct {
	*memstore.Store
	leave func()
}

func (s leaving) Break(ctx context.Context, name string, seenFence uint64) (uint64, error) {
	fence, err := s.Store.Break(ctx, name, seenFence)
	s.leave()
	if ctx.Err() != nil {
		return 0, ctx.Err() // the reply is lost
	}
	return fence, err
}

// If a visitor goes away while a lock is being broken, the log still says that it was broken.
func TestBreakByAVisitorThatWentAway(t *testing.T) {
	ctx, leave := context.WithCancel(t.Context())
	locker := padlock.New(leaving{memstore.New(), leave})
	defer locker.Close(context.WithoutCancel(t.Context()))
	text := &logText{}
	web := padlockweb.Handler(locker, padlockweb.Accept(tokens(t)), padlockweb.AllowBreak(), padlockweb.Logger(slog.New(slog.NewJSONHandler(text, nil))))
	defer web.Close()
	k, err := locker.TryAcquire(t.Context(), "shop/a")
	if err != nil {
		t.Fatal(err)
	}
	body := form("n", "shop/a", "fence", fmt.Sprint(k.Fence()), "reason", "dead")
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/break", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	with(breaker)(r)
	web.ServeHTTP(httptest.NewRecorder(), r)
	if !text.has(t, "msg", "break", "name", "shop/a") || text.has(t, "msg", "break failed") {
		t.Errorf("the log: %v", text.lines(t))
	}
}
