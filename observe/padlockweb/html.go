package padlockweb

import (
	"strconv"

	"github.com/padlock-go/padlock/internal/markup"
)

// These are the parts that several pages use.

// href returns a link.
func href(to markup.URL, parts ...markup.Part) markup.Part {
	return markup.El("a", markup.Href(to), markup.Group(parts))
}

// noteBox returns a paragraph in a box, or nothing if the text is empty. Its classes are "note" and
// the given one.
func noteBox(class, text string, attributes ...markup.Part) markup.Part {
	if class != "" {
		class = " " + class
	}
	return markup.If(text != "", markup.El("p", markup.Class("note"+class), markup.Group(attributes), markup.Text(text)))
}

// alert makes a screen reader read an element out at once.
var alert = markup.Fixed("role", "alert")

// quiet returns a paragraph in small print.
func quiet(text string) markup.Part { return markup.El("p", markup.Class("quiet"), markup.Text(text)) }

// badge returns a word on a background whose colour stands for the word.
func badge(word string) markup.Part {
	return markup.El("span", markup.Class("badge "+word), markup.Text(word))
}

// detail returns text as a line of its own below the other content of a table cell. If text is
// empty, detail returns nothing.
func detail(text string) markup.Part {
	return markup.If(text != "", markup.El("span", markup.Class("why"), markup.Text(text)))
}

// summary returns the heading of a page and a sentence below it. A screen reader speaks the
// sentence whenever the text of the sentence changes.
func summary(title, sentence string, badges ...markup.Part) markup.Part {
	return markup.El("div", markup.Class("summary"),
		markup.El("h1", markup.Text(title)), markup.Group(badges),
		markup.El("p", markup.Flag("data-summary"), markup.Text(sentence)))
}

func backToAll() markup.Part {
	return markup.El("p", href(markup.Local("./", nil), markup.Text("All locks")))
}

// column is a column of a table.
type column struct {
	title string
	class string // number, word or until; or empty
}

// head returns the head of the column. The parts are the content of the head. Without parts, its
// content is the title.
func (c column) head(parts ...markup.Part) markup.Part {
	if parts == nil {
		parts = []markup.Part{markup.Text(c.title)}
	}
	class := markup.If(c.class == "number", markup.Class(c.class))
	return markup.El("th", markup.Fixed("role", "columnheader"), markup.Fixed("scope", "col"), class, markup.Group(parts))
}

// cell returns a cell of the column. On a narrow screen, a cell shows the title of its column.
func (c column) cell(parts ...markup.Part) markup.Part {
	class := markup.If(c.class != "", markup.Class(c.class))
	return tableCell(class, markup.Data("head", c.title), markup.Group(parts))
}

// optional returns a cell. If the cell is empty, a narrow screen does not show the cell.
func (c column) optional(filled bool, parts ...markup.Part) markup.Part {
	class := c.class
	if !filled {
		class, parts = join(class, "empty"), nil
	}
	return tableCell(markup.Class(class), markup.Data("head", c.title), markup.Group(parts))
}

func join(class, other string) string {
	if class == "" {
		return other
	}
	return class + " " + other
}

func tableCell(parts ...markup.Part) markup.Part {
	return markup.El("td", markup.Fixed("role", "cell"), markup.Group(parts))
}

func tableRow(parts ...markup.Part) markup.Part {
	return markup.El("tr", markup.Fixed("role", "row"), markup.Group(parts))
}

// table returns a table. If the table is wider than the screen, it gets a scroll bar of its own, so
// that the rest of the page does not scroll.
func table(caption string, heads, rows markup.Part) markup.Part {
	rowGroup := markup.Fixed("role", "rowgroup")
	return markup.El("div", markup.Class("scroll"), markup.El("table", markup.Fixed("role", "table"),
		markup.El("caption", markup.Text(caption)),
		markup.El("thead", rowGroup, tableRow(heads)),
		markup.El("tbody", rowGroup, rows)))
}

// heads returns the heads of all columns.
func heads(columns ...column) markup.Group {
	var all markup.Group
	for _, c := range columns {
		all = append(all, c.head())
	}
	return all
}

// forEach returns a part for each item.
func forEach[T any](items []T, part func(i int, item *T) markup.Part) markup.Part {
	var all markup.Group
	for i := range items {
		all = append(all, part(i, &items[i]))
	}
	return all
}

// term returns a term and its description.
func term(name string, parts ...markup.Part) markup.Part {
	return markup.Group{markup.El("dt", markup.Text(name)), markup.El("dd", parts...)}
}

// number returns a number as text, or "unknown" for 0.
func number(n uint64) string {
	if n == 0 {
		return "unknown"
	}
	return strconv.FormatUint(n, 10)
}
