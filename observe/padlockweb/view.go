package padlockweb

import (
	"cmp"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/printable"
	"github.com/padlock-go/padlock/observe/sampler"
)

// row is a name as the pages show it.
type row struct {
	*sampler.Name
	Key     string // identifies the row on the page
	Level   string // see sampler.Name.Level
	Title   string // the name, safe to show
	Reasons string // why it is stuck
	Link    string // to the page of the name
}

func (v *visitor) newRow(n *sampler.Name, q query) row {
	why := []string{}
	if stuck := stuckFor(n); stuck != "" {
		why = append(why, stuck)
	}
	if n.State == sampler.Unknown && n.Why != "" {
		why = append(why, printable.Name(v.whyUnknown(n)))
	}
	if n.Unlisted != nil {
		why = append(why, "there may be more slots") // the reason may name locks of others
	}
	return row{
		Name: n, Link: q.nameLink(n.Name), Key: "n" + rowKey(n.Name+"\x00"+n.Path), Level: n.Level(),
		Title:   printable.Name(cmp.Or(n.Name, n.Path)), // a lock file may be known by its path only
		Reasons: strings.Join(why, ", "),
	}
}

// stuckFor returns why a name is stuck, or "" if it is not.
func stuckFor(n *sampler.Name) string {
	var why []string
	for _, reason := range n.Stuck {
		why = append(why, string(reason))
	}
	return strings.Join(why, ", ")
}

// whyUnknown returns why the state of a name is unknown. It is the text of an error of the store.
func (v *visitor) whyUnknown(n *sampler.Name) string {
	if n.Why == "" {
		return ""
	}
	return v.reason(errors.New(n.Why), "the store cannot tell its state")
}

// rowKey returns a key that identifies the row of a text on the page.
func rowKey(text string) string {
	hash := fnv.New64a()
	io.WriteString(hash, text)
	return strconv.FormatUint(hash.Sum64(), 36)
}

// query is what a page is asked to show.
type query struct {
	Kind   string // table, name or jobs
	name   string
	Filter string

	// These are for jobs. The other pages keep them for the way back.
	Failed bool
	Since  string // a duration, one of times
}

const (
	maxFilter = 256
	maxRows   = 500 // rows of a page; a filter finds the others
)

// newQuery reads the parameters of a page.
func newQuery(kind string, values url.Values) query {
	q := query{Kind: kind, Filter: printable.Name(values.Get("q")), Failed: values.Get("failed") == "1"} // names are compared as they are shown
	q.Filter = strings.ToValidUTF8(q.Filter[:min(len(q.Filter), maxFilter)], "")
	if kind == "name" {
		q.name = values.Get("n")
		q.name = q.name[:min(len(q.name), driver.MaxName)]
	}
	if slices.ContainsFunc(times, func(c [2]string) bool { return c[1] == values.Get("since") }) {
		q.Since = values.Get("since")
	}
	return q
}

// values returns the parameters that lead to the same page again.
func (q query) values() url.Values {
	values := url.Values{}
	failed := ""
	if q.Failed {
		failed = "1"
	}
	for key, value := range map[string]string{"n": q.name, "q": q.Filter, "failed": failed, "since": q.Since} {
		if value != "" {
			values.Set(key, value)
		}
	}
	return values
}

// events returns the address of the stream for this page.
func (q query) events() string {
	values := q.values()
	values.Set("view", q.Kind)
	return local("events", values)
}

// page returns the address of the page itself.
func (q query) page() string {
	path := q.Kind
	if q.Kind == "table" {
		path = "./"
	}
	return local(path, q.values())
}

// nameLink returns the address of the page of a name. It keeps the filter.
func (q query) nameLink(name string) string {
	q.Kind, q.name = "name", name
	return q.page()
}

// List returns the address of a list, the table or the jobs, with the same filter.
func (q query) List(kind string) string {
	q.Kind, q.name = kind, ""
	return q.page()
}

// isPlain reports whether the page shows everything.
func (q query) isPlain() bool { return q == query{Kind: q.Kind} }

// local returns an address on this server.
func local(path string, parameters url.Values) string {
	if query := parameters.Encode(); query != "" {
		return path + "?" + query
	}
	return path
}

// rows returns the names that the visitor sees and the query asks for, in the order of the sampler:
// stuck names come first, and then hot ones.
func rows(s *sampler.Snapshot, v *visitor, q query) []row {
	var all []row
	for i := range s.Names {
		n := &s.Names[i]
		if v.seesRow(n) && q.matches(n) {
			all = append(all, v.newRow(n, q))
		}
	}
	return all
}

// seesRow reports whether the visitor may see the row. If only the file of a lock is known, the
// lock has no name, and a visitor with a prefix does not see it.
func (v *visitor) seesRow(n *sampler.Name) bool {
	return v.right >= RightRead && strings.HasPrefix(n.Name, v.prefix)
}

func (q query) matches(n *sampler.Name) bool {
	switch {
	case q.Kind == "name":
		return n.Name == q.name
	case q.Filter == "":
		return true
	}
	text := strings.ToLower(q.Filter)
	in := func(s string) bool { return strings.Contains(strings.ToLower(printable.Name(s)), text) }
	return in(n.Name) || in(n.Path) || in(n.Level()) || slices.ContainsFunc(n.Holds, func(h sampler.Hold) bool { return in(h.Host) || in(h.Label) })
}

// sum returns the sums over the rows that a visitor sees.
func sum(rows []row) (t sampler.Totals) {
	for _, r := range rows {
		t.Add(r.Name)
	}
	return t
}

// spokenSummary returns a sentence with the totals. When the totals change, a screen reader speaks
// the new sentence.
func spokenSummary(t sampler.Totals) string {
	text := count(t.Held, "name is", "names are") + " held"
	if t.Waiters > 0 {
		text += ", " + count(t.Waiters, "caller waits", "callers wait")
	}
	if t.Stuck > 0 {
		text += ", " + count(t.Stuck, "name is", "names are") + " stuck"
	}
	if t.Unknown > 0 {
		text += ", the state of " + count(t.Unknown, "name is", "names is") + " unknown"
	}
	return text + "."
}

func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + many
}

// holderName returns a text that names a holder.
func holderName(host string, pid int, foreign bool) string {
	switch {
	case foreign && pid != 0:
		return fmt.Sprintf("a program other than padlock (process %d)", pid)
	case foreign:
		return "a program other than padlock"
	case host == "" && pid == 0:
		return "unknown"
	case host == "": // the store belongs to one machine and does not report its name
		return "process " + strconv.Itoa(pid)
	}
	return printable.Name(host) + ":" + strconv.Itoa(pid)
}

// waiters formats a number of waiters. A store without a queue does not know the number.
func waiters(n int) string {
	if n < 0 {
		return "unknown"
	}
	return strconv.Itoa(n)
}

// heldTime returns how long a hold has lasted.
func heldTime(h *sampler.Hold) string {
	if h.AtLeast {
		return "at least " + span(h.Held)
	}
	return span(h.Held)
}

// endText returns a text about the planned end of a hold, or else about the end of its lease.
func endText(h *sampler.Hold) string {
	in := func(what string, t time.Time) string {
		if d := time.Until(t); d > 0 {
			return what + " ends in " + span(d)
		}
		return what + " ended " + span(time.Since(t)) + " ago"
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

// span rounds a duration to the precision that a reader needs.
func span(d time.Duration) string {
	switch d = max(d, 0); {
	case d < time.Second:
		return strconv.FormatInt(d.Milliseconds(), 10) + " ms"
	case d < time.Minute:
		return strconv.Itoa(int(d/time.Second)) + " s"
	case d < time.Hour && d%time.Minute < time.Second:
		return strconv.Itoa(int(d/time.Minute)) + " min"
	case d < time.Hour:
		return fmt.Sprintf("%d min %d s", int(d/time.Minute), int(d/time.Second)%60)
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h %02d min", int(d/time.Hour), int(d/time.Minute)%60)
	}
	return strconv.Itoa(int(d/(24*time.Hour))) + " days"
}

// moment formats a time.
func moment(t time.Time) string {
	if t.IsZero() {
		return "unknown"
	}
	return t.UTC().Format("2006-01-02 15:04:05") + " UTC"
}

// SeenFence returns the fence of the name. If the name has none, it returns the fence of its only
// hold.
func (r *row) SeenFence() uint64 {
	if r.Fence == 0 && len(r.Holds) == 1 {
		return r.Holds[0].Fence
	}
	return r.Fence
}
