package padlockweb

import (
	"bytes"
	"embed"
	"html/template"
	"strconv"
	"sync"
	"time"

	"github.com/padlock-go/padlock/internal/printable"
	"github.com/padlock-go/padlock/observe/sampler"
)

//go:embed templates
var templateFiles embed.FS

// templates are the pages. They are parsed when the first page is made, because most runs of the
// command make none.
var templates = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("").Funcs(template.FuncMap{
		"text": printable.Name, "span": span, "moment": moment, "since": since, "count": count, "number": number,
		"spoken": spokenSummary, "mode": (*sampler.Hold).Mode, "held": heldTime, "until": endText, "holder": holderName, "client": overHTTP, "waiters": waiters,
		"rfc3339": func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
	}).ParseFS(templateFiles, "templates/*.html"))
})

// render makes a page, or a part of one. html/template escapes each text for the place in which the
// text stands. The result is UTF-8, and has no carriage return, which would end a line of an event.
func render(name string, c *content) template.HTML {
	var out bytes.Buffer
	if err := templates().ExecuteTemplate(&out, name, c); err != nil {
		panic(err) // a template names a field that does not exist; TestGoldenPages makes each page
	}
	page := bytes.ToValidUTF8(out.Bytes(), []byte("\uFFFD"))
	return template.HTML(bytes.ReplaceAll(page, []byte("\r"), []byte("&#13;")))
}

// UsualText tells how long holds of the name last.
func (r *row) UsualText() string {
	u := r.Usual
	if u.Count == 0 {
		return "no hold has ended since this page began to look"
	}
	return "p50 " + span(u.P50) + ", p95 " + span(u.P95) + ", p99 " + span(u.P99) + ", at most " + span(u.Max) + " (" + strconv.FormatUint(u.Count, 10) + " seen)"
}

// Holders returns the holds that the page of a name shows.
func (c *content) Holders() []sampler.Hold {
	if c.One == nil {
		return nil
	}
	return c.One.Holds[:min(len(c.One.Holds), maxRows)]
}

// OtherHolders returns how many holds the page of a name does not show.
func (c *content) OtherHolders() int { return len(c.One.Holds) - len(c.Holders()) }

// since returns the time that has passed since t.
func since(t time.Time) string { return span(time.Since(t)) }

// number returns a number as text, or "unknown" for 0.
func number(n uint64) string {
	if n == 0 {
		return "unknown"
	}
	return strconv.FormatUint(n, 10)
}
