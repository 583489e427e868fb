package padlockweb

import (
	"strconv"

	"github.com/padlock-go/padlock/internal/markup"
	"github.com/padlock-go/padlock/internal/printable"
	"github.com/padlock-go/padlock/observe/sampler"
)

// Further columns of the tables.
var (
	colSince   = column{title: "Since"}
	colEnd     = column{title: "Until"}
	colMissed  = column{"Renewals missed", "number"}
	colAction  = column{title: "Action"}
	colBegan   = column{title: "Began"}
	colResult  = column{"Result", "word"}
	colWaited  = column{"Waited", "number"}
	colTook    = column{"Took", "number"}
	colHost    = column{"Host", "word"}
	colEnded   = column{title: "Ended"}
	colOutcome = column{title: "How"}
)

// namePage shows everything about one name.
func namePage(c *content) markup.Part {
	page := markup.Group{warnings(c)}
	if c.One != nil {
		page = append(page, nameSummary(c), nameFigures(c.One), holdsTable(c))
	}
	page = append(page, runsTable(c.Runs), markup.If(c.NoRuns != "", quiet(c.NoRuns)))
	if c.One != nil {
		page = append(page, endedTable(c.One.Ended))
	}
	return append(page, backToAll(), foot(c))
}

func nameSummary(c *content) markup.Part {
	return markup.Group{
		summary(c.One.Title, c.OneSummary, badge(c.One.Level)), noteBox("bad", c.One.Reasons),
	}
}

func nameFigures(r *row) markup.Part {
	waiting := waiters(r.Waiters)
	if !r.WaitSince.IsZero() {
		waiting += ", for " + span(timeNow().Sub(r.WaitSince))
	}
	usual := "no hold has ended since this page began to look"
	if u := r.Usual; u.Count != 0 {
		usual = "p50 " + span(u.P50) + ", p95 " + span(u.P95) + ", p99 " + span(u.P99) + ", at most " + span(u.Max) + " (" + strconv.FormatUint(uint64(u.Count), 10) + " seen)"
	}
	seen := count(int(r.Grants), "grant", "grants") + ", " + count(int(r.Figures.Missed), "missed renewal", "missed renewals") + ", " +
		count(int(r.Figures.Expired), "hold", "holds") + " that ran out without a release"
	return markup.El("dl",
		term("Waiting", markup.Text(waiting)), term("Usually held", markup.Text(usual)), term("Seen", markup.Text(seen)),
		markup.If(r.Path != "", term("File", markup.Text(printable.Name(r.Path)))))
}

// holdsTable shows the holds of a name. If the visitor may break locks, each hold that has a fence
// gets a button for that.
func holdsTable(c *content) markup.Part {
	if len(c.One.Holds) == 0 {
		return nil
	}
	columns := []column{colHolder, colMode, colSince, colHeld, colEnd, colMissed, colFence}
	if c.MayBreak {
		columns = append(columns, colAction)
	}
	shown := c.One.Holds[:min(len(c.One.Holds), maxRows)]
	more := count(len(c.One.Holds)-len(shown), "more holder", "more holders")
	return markup.Group{table("Holders", heads(columns...), forEach(shown, func(i int, h *sampler.Hold) markup.Part {
		var action markup.Part
		if h.Fence != 0 {
			action = markup.El("a", markup.ID("break-"+strconv.Itoa(i)), markup.Class("button danger"), markup.Href(breakLink(h.Name)), markup.Text("Break …"))
		}
		return tableRow(
			colHolder.cell(holderPart(h)), colMode.cell(markup.Text(modeOf(h))), colSince.cell(markup.Text(moment(h.Since))),
			colHeld.cell(markup.Text(heldTime(h))), colEnd.cell(markup.Text(endText(h))), colMissed.cell(markup.Text(strconv.Itoa(h.Missed))),
			colFence.cell(markup.Text(number(h.Fence))), markup.If(c.MayBreak, colAction.cell(action)))
	})), markup.If(len(shown) < len(c.One.Holds), quiet("Not shown: "+more+". padlock status lists them all."))}
}

// runsTable shows the runs that were recorded.
func runsTable(runs []run) markup.Part {
	if len(runs) == 0 {
		return nil
	}
	return markup.Group{
		markup.El("h2", markup.Text("Runs")),
		table("Runs that were recorded, the latest first", heads(colBegan, colResult, colWaited, colTook, colHost),
			forEach(runs, func(_ int, r *run) markup.Part {
				return tableRow(
					colBegan.cell(markup.Text(moment(r.Began))), colResult.cell(badge(string(r.Outcome)), detail(r.Detail)),
					colWaited.cell(markup.Text(r.Waited)), colTook.cell(markup.Text(r.Took)), colHost.cell(markup.Text(r.Host)))
			})),
	}
}

// endedTable shows the holds that have ended.
func endedTable(ended []sampler.Ended) markup.Part {
	if len(ended) == 0 {
		return nil
	}
	return markup.Group{
		markup.El("h2", markup.Text("Past holds")),
		table("Holds that ended since this page began to look, the latest first", heads(colHolder, colEnded, colHeld, colOutcome, colFence),
			forEach(ended, func(_ int, e *sampler.Ended) markup.Part {
				lasted := "unknown"
				if e.Held >= 0 {
					lasted = span(e.Held)
				}
				return tableRow(
					colHolder.cell(markup.Text(holderName(e.Host, e.PID, e.Foreign)), labelOf(e.Label)), colEnded.cell(markup.Text(moment(e.End))),
					colHeld.cell(markup.Text(lasted)), colOutcome.cell(markup.Text(string(e.How))), colFence.cell(markup.Text(number(e.Fence))))
			})),
	}
}
