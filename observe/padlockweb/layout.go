package padlockweb

import (
	"strconv"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/internal/markup"
	"github.com/padlock-go/padlock/internal/printable"
)

// layout returns the whole page around the body of the content.
func layout(c *content) markup.Page {
	return markup.Document(markup.El("html", markup.Fixed("lang", "en"), pageHead(c),
		markup.El("body",
			markup.El("a", markup.Class("skip"), markup.Fixed("href", "#main"), markup.Text("Skip to the content")),
			pageTop(c),
			markup.El("p", markup.ID("news"), markup.Class("unseen"), markup.Fixed("role", "status"), markup.Fixed("aria-live", "polite")),
			pageMain(c),
		)))
}

func pageHead(c *content) markup.Part {
	return markup.El("head",
		markup.El("meta", markup.Fixed("charset", "utf-8")),
		markup.El("meta", markup.Fixed("name", "viewport"), markup.Fixed("content", "width=device-width, initial-scale=1")),
		markup.El("meta", markup.Fixed("name", "color-scheme"), markup.Fixed("content", "light dark")),
		markup.El("title", markup.Text(c.Title+" · padlock")),
		markup.El("link", markup.Fixed("rel", "stylesheet"), markup.Fixed("href", "style.css")),
		markup.El("link", markup.Fixed("rel", "icon"), markup.Fixed("href", "icon.svg")),
		markup.If(c.Live != "",
			markup.El("script", markup.Fixed("src", "live.js"), markup.Flag("defer")),
			markup.El("noscript", markup.El("meta", markup.Fixed("http-equiv", "refresh"), markup.Fixed("content", "3")))))
}

func pageTop(c *content) markup.Part {
	return markup.El("header", markup.Class("top"),
		markup.El("a", markup.Class("brand"), markup.Fixed("href", "./"),
			markup.El("img", markup.Fixed("src", "icon.svg"), markup.Fixed("alt", "")), markup.El("span", markup.Text("padlock"))),
		markup.El("span", markup.Class("store"), markup.Text(c.Place)),
		markup.If(c.Live != "",
			markup.El("span", markup.ID("connection")),
			markup.El("noscript", markup.El("span", markup.Class("quiet"), markup.Text("reloads every 3 seconds")))),
		markup.If(c.Reader, filterForm(c.Query)),
		visitorForm(c))
}

func filterForm(q query) markup.Part {
	return markup.El("form", markup.Class("filter"), markup.Fixed("action", "./"), markup.Fixed("role", "search"),
		markup.El("input", markup.ID("filter"), markup.Fixed("type", "search"), markup.Fixed("name", "q"), markup.Value(q.filter),
			markup.Fixed("maxlength", "256"), markup.Fixed("placeholder", "Name, host, label, stuck …"),
			markup.Fixed("aria-label", "Filter by name, host, label or state")),
		markup.If(q.sort != "", hidden("sort", q.sort)),
		button("Filter"))
}

// hidden returns an input field that the browser does not show but sends together with its form.
func hidden(name, value string) markup.Part {
	return markup.El("input", markup.Fixed("type", "hidden"), markup.Name(name), markup.Value(value))
}

func button(text string, attributes ...markup.Part) markup.Part {
	return markup.El("button", markup.Group(attributes), markup.Text(text))
}

func visitorForm(c *content) markup.Part {
	switch {
	case c.Token != "":
		return markup.El("form", markup.Fixed("method", "post"), markup.Fixed("action", "logout"),
			markup.El("span", markup.Class("quiet"), markup.Text(c.Token)), markup.Text(" "), button("Log out"))
	case c.CanLogIn:
		return markup.El("a", markup.Fixed("href", "login"), markup.Text("Log in"))
	}
	return nil
}

func pageMain(c *content) markup.Part {
	var body markup.Part = c.Body
	if c.Live != "" {
		body = markup.El("div", markup.ID("live"), markup.Data("live", c.Live), c.Body)
	}
	return markup.El("main", markup.ID("main"), markup.Fixed("tabindex", "-1"), body)
}

// messagePage shows only a text.
func messagePage(c *content) markup.Part {
	return markup.Group{
		markup.El("h1", markup.Text(c.Title)), noteBox("bad", c.Problem), noteBox("good", c.Good), backToAll(),
	}
}

func loginPage(c *content) markup.Part {
	return markup.Group{
		markup.El("h1", markup.Text("Log in")),
		noteBox("bad", c.Problem, alert),
		markup.El("form", markup.Class("form"), markup.Fixed("method", "post"), markup.Fixed("action", "login"),
			markup.El("input", markup.Fixed("type", "text"), markup.Fixed("name", "user"), markup.Fixed("value", "padlock"),
				markup.Fixed("autocomplete", "username"), markup.Flag("hidden")),
			markup.El("label", markup.Text("Token "),
				markup.El("input", markup.Fixed("type", "password"), markup.Fixed("name", "token"),
					markup.Fixed("autocomplete", "current-password"), markup.Flag("required"), markup.Flag("autofocus"))),
			quiet("The administrator of this server keeps the tokens in a file."),
			markup.El("div", button("Log in"))),
	}
}

// breakPage asks before it breaks a lock.
func breakPage(c *content) markup.Part {
	t := c.Target
	fence := strconv.FormatUint(t.Fence, 10)
	return markup.Group{
		markup.El("h1", markup.Text("Break "+t.Title)),
		noteBox("bad", c.Problem, alert),
		forEach(t.Holds, func(_ int, h *padlock.Hold) markup.Part { return targetHold(h) }),
		noteBox("", "Breaking a lock does not stop its holder. It works on until its next renewal finds that the lock is lost. First make sure that it is dead, or end it."),
		markup.El("form", markup.Class("form"), markup.Fixed("method", "post"), markup.Fixed("action", "break"),
			hidden("hex", t.Hex), hidden("fence", fence),
			markup.El("p", markup.Text("Fence that you have seen: "), markup.El("strong", markup.Text(fence)),
				markup.Text(". If another holder has the lock by then, nothing is broken.")),
			markup.El("label", markup.Text("Reason (for the audit log) "),
				markup.El("input", markup.Fixed("type", "text"), markup.Fixed("name", "reason"), markup.Fixed("maxlength", "300"),
					markup.Flag("required"), markup.Fixed("autocomplete", "off"), markup.Value(c.Reason))),
			markup.El("div", button("Break the lock", markup.Class("danger")), markup.Text(" "),
				markup.El("a", markup.Class("button"), markup.Href(t.Link), markup.Text("Cancel")))),
	}
}

// targetHold describes a hold that would be broken.
func targetHold(h *padlock.Hold) markup.Part {
	holder := holderName(h.Host, h.PID, h.Foreign)
	if h.Label != "" {
		holder += " (" + printable.Name(h.Label) + ")"
	}
	if h.Cooling {
		holder += ", which has released it: the name cools down"
	}
	since := "since an unknown time"
	if !h.Since.IsZero() {
		since = "for " + span(timeNow().Sub(h.Since)) + ", since " + moment(h.Since)
	}
	until := "it is released"
	if !h.Until.IsZero() {
		until = moment(h.Until)
		if !h.Cooling {
			until += ", unless it is renewed"
		}
	}
	return markup.El("dl",
		term("Holder", markup.Text(holder)), term("Held", markup.Text(since)), term("Until", markup.Text(until)),
		markup.If(!h.PlannedEnd.IsZero(), term("Planned end", markup.Text(moment(h.PlannedEnd)))))
}
