package padlockweb

import (
	"embed"
	"html/template"
	"io"
	"net/http"
	"path"
	"time"

	"github.com/padlock-go/padlock/observe/sampler"
)

//go:embed assets
var files embed.FS

// serveAsset answers with a file that browsers load.
func serveAsset(rw http.ResponseWriter, r *http.Request) {
	rw.Header().Set("Cache-Control", "no-cache")
	http.ServeFileFS(rw, r, files, "assets/"+path.Base(r.URL.Path))
}

// content is everything that a page shows.
type content struct {
	Title         string
	Problem, Good string
	Query         query
	Reason        string
	Target        *target // of the page that breaks a lock

	// These are for pages that change by themselves.
	Live             string // the address of the stream
	Trouble, Partial string
	Taken            time.Time // when the store was read
	Cost             string
	Rows             []row
	Totals           sampler.Totals
	More             int
	Caption, Nothing string
	One              *row
	OneSummary       string
	MayBreak         bool
	Runs             []run
	NoRuns           string
	Timeline         *timeline
	UsualRun         string
	Chart            *chart
	Jobs             []jobRow

	// setFrame sets these fields.
	Place    string
	Token    string // the name of the visitor's token
	CanLogIn bool
	Reader   bool
	HasJobs  bool
	Body     template.HTML // of render
}

// page answers with a whole page. The body is the name of a template.
func (w *Web) page(rw http.ResponseWriter, r *http.Request, status int, v *visitor, body string, c *content) {
	w.setFrame(rw, r, status, v, c, render(body, c))
}

// setFrame puts the body of a page into the layout.
func (w *Web) setFrame(rw http.ResponseWriter, r *http.Request, status int, v *visitor, c *content, body template.HTML) {
	c.Reader, c.Body = v.right >= RightRead, body
	if c.Reader { // an address is nothing for strangers
		c.Place = w.place
	}
	if _, err := r.Cookie(cookieName); err == nil {
		c.Token = v.token.name
	}
	c.HasJobs = c.Reader && w.history != nil
	c.CanLogIn = w.tokens != nil && w.authorize == nil && !v.known() && r.URL.Path != "/login"
	rw.Header().Set("Content-Type", "text/html; charset=utf-8")
	rw.WriteHeader(status)
	io.WriteString(rw, string(render("layout", c))) // net/http drops the body of an answer to HEAD
}

// message answers with a page that shows only a text.
func (w *Web) message(rw http.ResponseWriter, r *http.Request, status int, v *visitor, text string) {
	w.page(rw, r, status, v, "message", &content{Title: http.StatusText(status), Problem: text})
}
