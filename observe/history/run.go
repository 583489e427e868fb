// Package history keeps the last runs of a name: when each began and ended, with which exit status,
// on which host, and how long it waited for the lock. A skipped run is recorded too, with the
// holders that had the lock. "padlock run --record" writes the history; "padlock history", "padlock
// top" and the web page show it.
//
// Use it in a program that shows or checks the runs of jobs. A job of your own need not use it:
// start the job with "padlock run --record" instead.
//
// A history is in a directory of the machine and, if the store is a [fast.Recorder], in the
// store, so that all machines that use the store share it. A directory can have the histories of
// several stores, and keeps them apart. A history keeps the last 50 runs and the last 50 skipped
// runs of a name. It also keeps the last success and the last failure, so that many failures do not
// push out the last success.
//
// A run is written when its command begins and once more when the command ends. If the padlock
// process is killed, or the machine loses its power, the second record is not written. Then the run
// is in the history without an end.
package history

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/driver/fast"
	"github.com/padlock-go/padlock/internal/printable"
)

// MaxRuns is how many runs, and how many skipped runs, a history keeps for each name.
const MaxRuns = fast.MaxRecords

// Run is one run of a command under a lock, or an attempt that was skipped. The texts come from
// other processes and are not verified: they may contain control characters.
type Run struct {
	Name string
	ID   string // unique among the runs of a name; NewID makes it

	Host  string
	PID   int // of padlock, not of the command
	Label string
	Fence uint64 // of the lock; 0 if the store has none or the run was skipped
	Slot  int    // number of the slot, or -1 for a lock without slots

	Shared bool // the lock was shared, so other shared runs could work at once

	// Start is when the command began or, for a skipped run, when padlock gave up. End is zero if
	// no end is recorded: the command is still running, or padlock was killed.
	Start, End time.Time
	Waited     time.Duration // for the lock

	Exit   int    // exit status of padlock, after End
	Signal string // the signal that killed the command, such as "KILL", or ""

	// Reason is why padlock ended the command or did not run it, a word such as "lost", "timeout",
	// "held" or "unavailable"; "" if the command ran and ended by itself.
	Reason string

	Skipped bool            // the command was not run
	By      []driver.Holder // the holders of the lock when the run was skipped, at most MaxBy

	// Asked is when somebody asked the run to finish early, as the run itself learned with
	// "padlock run --on-ask", and AskedBy is who did. Its Label is the reason. If nobody asked, both
	// are zero.
	Asked   time.Time
	AskedBy driver.Holder

	// Running means that this run holds the lock. Only MarkRunning sets it.
	Running bool
}

// MaxBy is the largest number of holders that the record of a skipped run contains.
const MaxBy = 3

// Outcome is the result of a run in one word.
type Outcome string

// The outcomes. Each run has exactly one.
const (
	Running Outcome = "running" // MarkRunning found the lock held by this run
	NoEnd   Outcome = "no-end"  // no end is recorded, and the run is not known to be running
	Success Outcome = "success" // the command ended with exit status 0
	Failure Outcome = "failure" // the command failed, or padlock ended it
	Skipped Outcome = "skipped" // the command was not run, because of the lock or of the store
)

// Outcome returns the outcome of r.
func (r *Run) Outcome() Outcome {
	switch {
	case r.Skipped:
		return Skipped
	case r.Running:
		return Running
	case r.End.IsZero():
		return NoEnd
	case r.Exit == 0 && r.Signal == "" && r.Reason == "":
		return Success
	}
	return Failure
}

// Duration returns how long the command ran, or 0 if that is not known.
func (r *Run) Duration() time.Duration {
	if r.Skipped || r.End.IsZero() {
		return 0
	}
	return max(0, r.End.Sub(r.Start))
}

// The series of the records: see fast.Record.
const (
	seriesRun     = "r"
	seriesSkipped = "s"
	lastSuccess   = "l-success"
	lastFailure   = "l-failure"
)

// NewID returns a new ID for a run. start is the time at which the run began or was skipped.
func NewID(start time.Time, skipped bool) string {
	series := seriesRun
	if skipped {
		series = seriesSkipped
	}
	return fmt.Sprintf("%s%014x-%s", series, max(0, start.UnixMicro()), strings.ToLower(rand.Text()[:10]))
}

// formatVersion is the version of the text of a record. A reader leaves out records with another
// version. A new field does not change the version.
const formatVersion = 1

// text is the JSON form of a run in a record. The embedded holder is the process that ran the
// command.
type text struct {
	Version int      `json:"v"`
	Start   int64    `json:"start"` // microseconds since 1970
	End     int64    `json:"end,omitempty"`
	Waited  int64    `json:"waited,omitempty"` // microseconds
	Exit    int      `json:"exit,omitempty"`
	Signal  string   `json:"signal,omitempty"`
	Reason  string   `json:"reason,omitempty"`
	Skipped bool     `json:"skipped,omitempty"`
	By      []holder `json:"by,omitempty"`
	Asked   int64    `json:"asked,omitempty"` // microseconds since 1970
	Asker   *holder  `json:"asker,omitempty"`
	Fence   uint64   `json:"fence,omitempty"`
	Slot    *int     `json:"slot,omitempty"`
	Shared  bool     `json:"shared,omitempty"`
	holder
}

type holder struct {
	Host  string `json:"host,omitempty"`
	PID   int    `json:"pid,omitempty"`
	Label string `json:"label,omitempty"`
}

// These constants limit the texts of a record, in bytes. In JSON one byte may become six. Even then
// the longest record is shorter than fast.MaxRecord. So a record has only the beginning of a
// label that is longer than maxLabel.
const (
	maxLabel   = 256
	maxHost    = 64
	maxByLabel = 32
	maxReason  = 128 // of a question; a run that was asked was not skipped, and has no By
	maxWord    = 16
)

// encode returns r as the text of a record.
func (r *Run) encode() string {
	t := text{
		Version: formatVersion, Start: r.Start.UnixMicro(), Waited: r.Waited.Microseconds(), Exit: r.Exit,
		Signal: cutText(r.Signal, maxWord), Reason: cutText(r.Reason, maxWord), Skipped: r.Skipped, Fence: r.Fence, Shared: r.Shared,
		holder: holder{cutText(r.Host, maxHost), r.PID, cutText(r.Label, maxLabel)},
	}
	if !r.End.IsZero() {
		t.End = r.End.UnixMicro()
	}
	if r.Slot >= 0 {
		t.Slot = &r.Slot
	}
	if !r.Asked.IsZero() && len(r.By) == 0 {
		t.Asked = r.Asked.UnixMicro()
		t.Asker = &holder{cutText(r.AskedBy.Host, maxHost), r.AskedBy.PID, cutText(r.AskedBy.Label, maxReason)}
	}
	for _, h := range r.By[:min(len(r.By), MaxBy)] {
		t.By = append(t.By, holder{cutText(h.Host, maxHost), h.PID, cutText(h.Label, maxByLabel)})
	}
	b, err := json.Marshal(t)
	if err != nil {
		panic(err) // the fields are numbers and texts
	}
	return string(b)
}

// cutText shortens a text to at most n bytes and replaces what is not UTF-8.
func cutText(s string, n int) string {
	return strings.ToValidUTF8(printable.Cut(s, n), "\ufffd")
}

// decode reads the text of a record. It returns false if the text is of another version or is
// damaged.
func decode(name string, record fast.Record) (Run, bool) {
	var t text
	if record.ID == "" || json.Unmarshal([]byte(record.Text), &t) != nil || t.Version != formatVersion {
		return Run{}, false
	}
	r := Run{
		Name: name, ID: record.ID, Host: t.Host, PID: t.PID, Label: t.Label, Fence: t.Fence, Slot: -1, Shared: t.Shared,
		Start: time.UnixMicro(t.Start), Waited: time.Duration(t.Waited) * time.Microsecond,
		Exit: t.Exit, Signal: t.Signal, Reason: t.Reason, Skipped: t.Skipped,
	}
	if t.End != 0 {
		r.End = time.UnixMicro(t.End)
	}
	if t.Slot != nil {
		r.Slot = *t.Slot
	}
	if t.Asked != 0 && t.Asker != nil {
		r.Asked, r.AskedBy = time.UnixMicro(t.Asked), driver.Holder{Host: t.Asker.Host, PID: t.Asker.PID, Label: t.Asker.Label}
	}
	for _, h := range t.By[:min(len(t.By), MaxBy)] {
		r.By = append(r.By, driver.Holder{Host: h.Host, PID: h.PID, Label: h.Label})
	}
	return r, true
}

// records returns the records that a store keeps for r.
func (r *Run) records() []fast.Record {
	records := []fast.Record{{ID: r.ID, Text: r.encode()}}
	switch r.Outcome() {
	case Success:
		records = append(records, fast.Record{ID: lastSuccess, Text: records[0].Text})
	case Failure:
		records = append(records, fast.Record{ID: lastFailure, Text: records[0].Text})
	}
	return records
}

// MarkRunning finds the runs that are still going on, and sets Running for them. The argument is
// the state of the lock. A run is still going on if it has no end, and if the state lists its
// process as a holder. Several runs without an end may have the host and the process ID of one
// holder. Then only the last of them is still going on: the others were killed. For runs that used
// a slot, the argument must be the state of their permit: see fast.SlotName.
func MarkRunning(runs []Run, state driver.State) {
	name, slot, isSlot := fast.SplitSlot(state.Name)
	if !isSlot {
		name, slot = state.Name, -1
	}
	found := map[*Run]bool{}
	for _, h := range state.Holds {
		if h.Cooling || h.PID == 0 {
			continue
		}
		var last *Run
		for i := range runs {
			r := &runs[i]
			same := r.Name == name && r.Slot == slot && r.PID == h.PID && r.Host == cutText(h.Host, maxHost)
			if same && r.End.IsZero() && !r.Skipped && !found[r] && (last == nil || r.Start.After(last.Start)) {
				last = r
			}
		}
		if last != nil {
			last.Running, found[last] = true, true
		}
	}
}

// AskRunning asks for the locks of the runs that have no end, and calls MarkRunning for each. The
// argument inspect asks the store, as Locker.Inspect does. If it fails, it is not known whether the
// runs are going on, and AskRunning returns the error. A store that can never tell who holds a lock
// is no error.
func AskRunning(ctx context.Context, runs []Run, inspect func(ctx context.Context, name string) (driver.State, error)) error {
	asked := map[string]bool{}
	for i := range runs {
		r := &runs[i]
		name := r.Name
		if r.Slot >= 0 {
			name = fast.SlotName(name, r.Slot)
		}
		if !r.End.IsZero() || r.Skipped || asked[name] {
			continue
		}
		asked[name] = true
		state, err := inspect(ctx, name)
		switch {
		case err == nil:
			MarkRunning(runs, state)
		case !errors.Is(err, errors.ErrUnsupported):
			return fmt.Errorf("it is not known which runs are going on: %w", err)
		}
	}
	return nil
}
