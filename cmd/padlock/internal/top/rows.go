package top

import (
	"cmp"
	"slices"
	"strings"

	"github.com/padlock-go/padlock/cmd/padlock/internal/texts"
	"github.com/padlock-go/padlock/observe/sampler"
)

// key identifies a row: a name, or the file of a lock whose name the store does not know.
func key(n *sampler.Name) string { return cmp.Or(n.Name, n.Path) }

// shownHold returns the hold that the row of a name shows, which is the longest one, or nil if there
// is none.
func shownHold(n *sampler.Name) *sampler.Hold {
	var found *sampler.Hold
	for i := range n.Holds {
		h := &n.Holds[i]
		if found == nil || found.Cooling && !h.Cooling || h.Held > found.Held && h.Cooling == found.Cooling {
			found = h
		}
	}
	return found
}

// holder names the process that has a hold.
func holder(h *sampler.Hold) string {
	switch {
	case h == nil:
		return "-"
	case h.Host != "" && h.PID != 0:
		return texts.Show(h.Host) + ":" + itoa(h.PID)
	case h.Host != "":
		return texts.Show(h.Host)
	case h.PID != 0: // another program, or a store that does not record host names
		return "process " + itoa(h.PID)
	case h.Foreign:
		return "not padlock"
	}
	return "not recorded"
}

// rows returns the rows that match the filter, in the order of the snapshot: stuck ones
// first.
func (m *Model) rows() []*sampler.Name {
	var rows []*sampler.Name
	for i := range m.snap.Names {
		if n := &m.snap.Names[i]; m.matches(n) {
			rows = append(rows, n)
		}
	}
	return rows
}

// matches reports whether a row is shown: one of its texts must contain the filter.
func (m *Model) matches(n *sampler.Name) bool {
	filter := strings.ToLower(m.filter)
	has := func(text string) bool { return strings.Contains(strings.ToLower(text), filter) }
	if has(n.Name) || has(n.Path) || has(string(n.State)) {
		return true
	}
	return slices.ContainsFunc(n.Holds, func(h sampler.Hold) bool { return has(holder(&h)) || has(h.Label) }) ||
		slices.ContainsFunc(n.Stuck, func(r sampler.Reason) bool { return has(string(r)) })
}

// chosen returns the row under the cursor and its index, or nil and 0 if there are no rows. If the
// row of the cursor is gone, the row in its place is chosen.
func (m *Model) chosen(rows []*sampler.Name) (*sampler.Name, int) {
	if len(rows) == 0 {
		return nil, 0
	}
	i := slices.IndexFunc(rows, func(n *sampler.Name) bool { return key(n) == m.cursor })
	if i < 0 {
		i = max(0, min(m.index, len(rows)-1))
	}
	return rows[i], i
}

// noteColumn returns the last column of a row: what is special about the name.
func noteColumn(n *sampler.Name) string {
	var notes []string
	for _, r := range n.Stuck {
		notes = append(notes, string(r))
	}
	if n.State != sampler.Held {
		notes = append(notes, string(n.State))
	}
	if slots := slices.IndexFunc(n.Holds, func(h sampler.Hold) bool { return h.Slot >= 0 }); slots >= 0 {
		notes = append(notes, texts.Several(len(n.Holds), "slot", "slots"))
	} else if len(n.Holds) > 1 {
		notes = append(notes, texts.Several(len(n.Holds), "holder", "holders"))
	}
	if h := shownHold(n); h != nil {
		if h.Shared {
			notes = append(notes, "shared")
		}
		if h.Foreign {
			notes = append(notes, "foreign")
		}
		if h.Label != "" {
			notes = append(notes, texts.Show(h.Label))
		}
	}
	return strings.Join(notes, ", ")
}

// title returns the name of a row, or the file of a lock whose name the store does not know.
func title(n *sampler.Name) string {
	if n.Name == "" {
		return "file " + texts.Show(n.Path)
	}
	return texts.Show(n.Name)
}
