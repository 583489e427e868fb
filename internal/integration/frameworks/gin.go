package frameworks

import (
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/padlock-go/padlock/web/session"
)

func withGin(router *gin.Engine, sessions *session.Manager) http.Handler {
	router.Use(gin.Recovery())
	router.POST("/visit", func(c *gin.Context) {
		ctx := c.Request.Context() // not c itself
		n, err := session.From(ctx).Incr(ctx, "visits", 1)
		if err != nil {
			return // the answer is 503
		}
		c.String(http.StatusOK, "%d\n", n)
	})
	router.POST("/note/:key", func(c *gin.Context) {
		session.From(c.Request.Context()).Put(c.Param("key"), c.PostForm("text"))
	})
	router.POST("/order", ginMode(sessions.With(session.Exclusive)), gin.WrapF(order))
	return sessions.Middleware(router)
}

// ginMode makes a middleware of gin from Manager.With. It works only inside of Manager.Middleware.
func ginMode(mode func(http.Handler) http.Handler) gin.HandlerFunc {
	return func(c *gin.Context) {
		mode(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			c.Request = r
			c.Next()
		})).ServeHTTP(c.Writer, c.Request)
	}
}
