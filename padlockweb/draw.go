package padlockweb

import (
	"bytes"
	"embed"
	"html/template"
	"mime"
	"net/http"
	"path"
	"strconv"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/internal/printable"
	"github.com/padlock-go/padlock/sampler"
)

//go:embed assets
var files embed.FS

// assets are the files that browsers load, by their paths.
var assets = readAssets("style.css", "live.js", "icon.svg")

func readAssets(names ...string) map[string][]byte {
	all := make(map[string][]byte)
	for _, name := range names {
		data, err := files.ReadFile("assets/" + name)
		if err != nil {
			panic(err) // the file is part of the program
		}
		all[name] = data
	}
	return all
}

func serveAsset(rw http.ResponseWriter, r *http.Request) {
	name := path.Base(r.URL.Path)
	rw.Header().Set("Content-Type", mime.TypeByExtension(path.Ext(name)))
	rw.Header().Set("Cache-Control", "no-cache")
	rw.Write(assets[name])
}

var pages = template.Must(template.New("").Funcs(template.FuncMap{
	"shown": printable.Name, "span": span, "moment": moment, "mode": mode,
	"hostLink": hostLink, "breakLink": breakLink,
	"who":      func(h sampler.Hold) string { return who(h.Host, h.PID, h.Foreign) },
	"holding":  func(h padlock.Hold) string { return who(h.Host, h.PID, h.Foreign) },
	"holderOf": func(e sampler.Ended) string { return who(e.Host, e.PID, e.Foreign) },
	"waiters":  waiters, "held": held, "until": until,
	"count": func(n uint64, one, many string) string { return count(int(n), one, many) },
	"age":   func(t time.Time) string { return span(now().Sub(t)) },
	"since": func(t time.Time) string { return span(now().Sub(t)) },
}).ParseFS(files, "assets/*.html"))

// waiters formats a number of waiters. A store without a queue does not know the number.
func waiters(n int) string {
	if n < 0 {
		return "unknown"
	}
	return strconv.Itoa(n)
}

// held returns how long a hold has lasted.
func held(h sampler.Hold) string {
	if h.AtLeast {
		return "at least " + span(h.Held)
	}
	return span(h.Held)
}

// until returns a text about the planned end of a hold, or else about the end of its lease.
func until(h sampler.Hold) string {
	in := func(what string, t time.Time) string {
		if d := t.Sub(now()); d > 0 {
			return what + " ends in " + span(d)
		}
		return what + " ended " + span(now().Sub(t)) + " ago"
	}
	switch {
	case !h.PlannedEnd.IsZero():
		return in("plan", h.PlannedEnd)
	case h.Until.IsZero():
		return "its release"
	case h.Cooling:
		return in("cool-down", h.Until)
	}
	return in("lease", h.Until)
}

// content is what a template gets.
type content struct {
	Title         string
	Problem, Good string
	Query         query
	Reason        string
	Target        *target // of the page that breaks a lock

	// These are for pages that change by themselves.
	Live             string // the address of the stream
	Trouble, Partial string
	Taken, Cost      string
	Rows             []row
	Totals           totals
	More             int
	Caption, Nothing string
	One              *row
	OneSummary       string
	MayBreak         bool
	Runs             []run
	NoRuns           string

	// The method page sets these fields.
	Place    string
	Token    string // the name of the visitor's token
	CanLogIn bool
	Reader   bool
	Body     template.HTML
}

// page answers with a whole page.
func (w *Web) page(rw http.ResponseWriter, r *http.Request, status int, v *visitor, name string, c *content) {
	body, err := draw(name, c)
	if err == nil {
		w.frame(rw, r, status, v, c, body)
		return
	}
	w.logger.Error("a page could not be drawn", "page", name, "error", err.Error())
	plain(rw, http.StatusInternalServerError, "the page could not be made")
}

// frame puts the body of a page into the layout.
func (w *Web) frame(rw http.ResponseWriter, r *http.Request, status int, v *visitor, c *content, body []byte) {
	c.Place, c.Reader, c.Body = w.place, v.right >= RightRead, template.HTML(body) // made by a template
	if _, err := r.Cookie(cookieName); err == nil {
		c.Token = v.token.name
	}
	c.CanLogIn = w.tokens != nil && w.authorize == nil && !v.known()
	whole, err := draw("layout", c)
	if err != nil {
		w.logger.Error("a page could not be drawn", "page", "layout", "error", err.Error())
		plain(rw, http.StatusInternalServerError, "the page could not be made")
		return
	}
	rw.Header().Set("Content-Type", "text/html; charset=utf-8")
	rw.WriteHeader(status)
	if r.Method != http.MethodHead {
		rw.Write(whole)
	}
}

// message answers with a page that shows only a text.
func (w *Web) message(rw http.ResponseWriter, r *http.Request, status int, v *visitor, text string) {
	w.page(rw, r, status, v, "message", &content{Title: http.StatusText(status), Problem: text})
}

// draw runs a template.
func draw(name string, c *content) ([]byte, error) {
	var b bytes.Buffer
	if err := pages.ExecuteTemplate(&b, name, c); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}
