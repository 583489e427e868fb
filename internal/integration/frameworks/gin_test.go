package frameworks

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/gin-gonic/gin"

	"github.com/padlock-go/padlock/web/session"
	"github.com/padlock-go/padlock/web/session/sessionstore"
)

// usual is gin with the adapter that programs write for middleware of net/http. The handler writes
// its answer to gin's writer and not to that of the session, so the session's cookie cannot be
// sent.
func usual(m *session.Manager, panicked func(reason any)) http.Handler {
	router := gin.New()
	router.Use(gin.CustomRecovery(func(_ *gin.Context, reason any) { panicked(reason) }), ginMode(m.Middleware))
	router.POST("/visit", func(c *gin.Context) {
		ctx := c.Request.Context()
		n, err := session.From(ctx).Incr(ctx, "visits", 1)
		if err != nil {
			return
		}
		c.String(http.StatusOK, fmt.Sprint(n))
	})
	return router
}

// TestGinsUsualAdapterIsLoud: a developer sees the mistake at the first request. gin has begun its
// answer by then, so the log has the reason.
func TestGinsUsualAdapterIsLoud(t *testing.T) {
	t.Parallel()
	var e events
	var said any
	m := newManager(t, sessionstore.NewMemory(), session.Development(), e.option())
	h := usual(m, func(reason any) { said = reason })
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/visit", nil))
	if text := fmt.Sprint(said); !strings.Contains(text, "put Manager.Middleware around the whole router") {
		t.Errorf("the panic says %s", text)
	}
	if e.lost.Load() != 1 {
		t.Errorf("%d events", e.lost.Load())
	}
}

// TestGinsUsualAdapterIsReported: in production each request that loses its session is an event.
func TestGinsUsualAdapterIsReported(t *testing.T) {
	t.Parallel()
	var e events
	m := newManager(t, sessionstore.NewMemory(), e.option())
	b := open(t, usual(m, func(reason any) { t.Error(reason) }))
	for range 3 {
		if n := b.must("/visit", nil); n != "1" { // the loss that is reported
			t.Errorf("visit number %s", n)
		}
	}
	if e.lost.Load() != 3 {
		t.Errorf("%d events", e.lost.Load())
	}
}
