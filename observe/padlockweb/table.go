package padlockweb

import (
	"strconv"

	"github.com/padlock-go/padlock/internal/markup"
	"github.com/padlock-go/padlock/internal/printable"
	"github.com/padlock-go/padlock/observe/sampler"
)

// The columns of the tables.
var (
	colState   = column{title: "State"}
	colName    = column{title: "Name"}
	colHolder  = column{"Holder", "word"}
	colMode    = column{title: "Mode"}
	colHeld    = column{"Held for", "number"}
	colWaiting = column{"Waiting", "number"}
	colUntil   = column{"Until", "until"}
	colUsual   = column{"Usually held, p50 / p95", "number"}
	colFence   = column{"Fence", "number"}
)

// tablePage is the first page.
func tablePage(c *content) markup.Part {
	return markup.Group{warnings(c), summary("Locks", c.Totals.spokenSummary()), rowsTable(c), foot(c)}
}

// hostPage shows the names that a host holds.
func hostPage(c *content) markup.Part {
	return markup.Group{
		warnings(c), summary("Host "+printable.Name(c.Query.host), c.Totals.spokenSummary()), rowsTable(c), backToAll(), foot(c),
	}
}

// warnings returns the notes about what the page may lack. The first note changes each second, so a
// screen reader speaks a sentence instead that does not.
func warnings(c *content) markup.Part {
	return markup.Group{noteBox("bad", c.Trouble, markup.Data("stale", "The store cannot be read.")), noteBox("", c.Partial)}
}

// foot says when the store was read, and what that costs.
func foot(c *content) markup.Part {
	if c.Taken.IsZero() {
		return markup.El("footer")
	}
	cost := c.Cost
	if cost != "" {
		cost = " " + cost
	}
	return markup.El("footer", markup.El("p", markup.Text("As of "),
		markup.El("time", markup.DateTime(c.Taken), markup.Text(moment(c.Taken))), markup.Text("."+cost)))
}

// rowsTable shows all rows of the content.
func rowsTable(c *content) markup.Part {
	rows := forEach(c.Rows, func(_ int, r *row) markup.Part { return nameRow(r) })
	if len(c.Rows) == 0 {
		rows = tableRow(tableCell(markup.Fixed("colspan", "9"), markup.Text(c.Nothing)))
	}
	columns := markup.Group{
		colState.head(),
		sortedHead(c.Query, colName, "name", "ascending"), sortedHead(c.Query, colHolder, "host", "ascending"),
		colMode.head(),
		sortedHead(c.Query, colHeld, "held", "descending"), sortedHead(c.Query, colWaiting, "waiting", "descending"),
		colUntil.head(), colUsual.head(), colFence.head(),
	}
	further := ""
	if c.More > 0 {
		further = "There are " + strconv.Itoa(c.More) + " more names. The filter finds them."
	}
	return markup.Group{table(c.Caption, columns, rows), noteBox("", further)}
}

// sortedHead returns the head of a column by which the table can be sorted.
func sortedHead(q query, c column, by, direction string) markup.Part {
	return c.head(
		markup.If(q.sort == by, markup.Aria("sort", direction)),
		markup.El("a", markup.ID("by-"+by), markup.Href(q.sorted(by)), markup.Text(c.title)))
}

// nameRow shows a name. Of several holds it shows the first one.
func nameRow(r *row) markup.Part {
	title := markup.Part(markup.Text(r.Title))
	if r.Name.Name != "" {
		title = markup.El("a", markup.ID(r.Key), markup.Href(r.Link), title)
	}
	waitTime, usual, fence := "", "", ""
	if !r.WaitSince.IsZero() {
		waitTime = "for " + span(timeNow().Sub(r.WaitSince))
	}
	if r.Usual.Count != 0 {
		usual = span(r.Usual.P50) + " / " + span(r.Usual.P95)
	}
	if f := r.seenFence(); f != 0 {
		fence = number(f)
	}
	var holder markup.Part
	var mode, heldFor, end string
	if len(r.Holds) > 0 {
		h := &r.Holds[0]
		holder, mode, heldFor, end = markup.Group{holderPart(h), otherHolds(r)}, modeOf(h), heldTime(h), endText(h)
	}
	filled := len(r.Holds) > 0
	return tableRow(markup.Data("level", r.Level), markup.Data("name", r.Title),
		tableCell(badge(r.Level), detail(r.Reasons)),
		markup.El("th", markup.Fixed("role", "rowheader"), markup.Fixed("scope", "row"), title),
		colHolder.optional(filled, holder),
		colMode.optional(filled, markup.Text(mode)),
		colHeld.optional(filled, markup.Text(heldFor)),
		colWaiting.cell(markup.Text(waiters(r.Waiters)), detail(waitTime)),
		colUntil.optional(filled, markup.Text(end)),
		colUsual.optional(usual != "", markup.Text(usual)),
		colFence.optional(fence != "", markup.Text(fence)))
}

// otherHolds tells how many holds of the name the table does not show.
func otherHolds(r *row) markup.Part {
	n := len(r.Holds) - 1
	return markup.If(n > 0, markup.Text(" "), href(r.Link, markup.Text("and "+strconv.Itoa(n)+" more")))
}

// holderPart shows the holder, with a link to its host, and its label.
func holderPart(h *sampler.Hold) markup.Part {
	holder := markup.Part(markup.Text(holderName(h.Host, h.PID, h.Foreign)))
	if h.Host != "" {
		holder = href(hostLink(h.Host), holder)
	}
	return markup.Group{holder, labelOf(h.Label)}
}

func labelOf(label string) markup.Part {
	if label == "" {
		return nil
	}
	return detail(printable.Name(label))
}
