package frameworks

import (
	"fmt"
	"net/http"

	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"

	"github.com/padlock-go/padlock/web/session"
)

func withEcho(router *echo.Echo, sessions *session.Manager) http.Handler {
	router.Use(middleware.Recover())
	router.POST("/visit", func(c echo.Context) error {
		ctx := c.Request().Context()
		n, err := session.From(ctx).Incr(ctx, "visits", 1)
		if err != nil {
			return echo.NewHTTPError(session.Status(err))
		}
		return c.String(http.StatusOK, fmt.Sprintln(n))
	})
	router.POST("/note/:key", func(c echo.Context) error {
		return session.From(c.Request().Context()).Put(c.Param("key"), c.FormValue("text"))
	})
	exclusive := echo.WrapMiddleware(sessions.With(session.Exclusive))
	router.POST("/order", echo.WrapHandler(http.HandlerFunc(order)), exclusive)
	return sessions.Middleware(router)
}
