package drivertest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/driver/fast"
)

var recordCases = []testCase{
	{
		name:   "record/kept",
		clause: "Every process gets the records of a name, sorted by ID; a record replaces the one with the same ID; the records of other names are others. Records need no lock and are none: the name stays free, and they outlive holds.",
		f: func(c *check) {
			n, other := c.newName(), c.newName()
			c.hasRecords(n, nil)
			c.mustRecord(c.a, n, fast.Record{ID: "r2", Text: `{"a":"é\u0001"}`}, fast.Record{ID: "l-last", Text: "'; -- %s"})
			c.mustRecord(c.b, n, fast.Record{ID: "r1", Text: "first"})
			c.mustRecord(c.b, other, fast.Record{ID: "r1", Text: "of another name"})
			l := c.take(c.b, c.request(n), "of a name with records")
			c.mustRecord(c.a, n, fast.Record{ID: "r1", Text: "again"})
			c.verify(l, "after Record")
			c.releaseFreely(l)
			c.hasRecords(n, []fast.Record{{ID: "l-last", Text: "'; -- %s"}, {ID: "r1", Text: "again"}, {ID: "r2", Text: `{"a":"é\u0001"}`}})
			c.hasRecords(other, []fast.Record{{ID: "r1", Text: "of another name"}})
		},
	},
	{
		name:   "record/bounded",
		clause: "Of each series of a name, the store keeps the MaxRecords records with the greatest IDs, however they arrive.",
		f: func(c *check) {
			n, spare := c.newName(), 7
			var want []fast.Record
			for i := range fast.MaxRecords + spare {
				r := fast.Record{ID: fmt.Sprintf("r%03d-x", i), Text: strings.Repeat("x", i+1)}
				if i >= spare {
					want = append(want, r)
				}
			}
			c.mustRecord(c.a, n, fast.Record{ID: "s0", Text: "of another series"})
			c.mustRecord(c.a, n, want[:20]...)
			for i := range spare {
				c.mustRecord(c.a, n, fast.Record{ID: fmt.Sprintf("r%03d-x", i), Text: "old"})
			}
			c.mustRecord(c.b, n, want[20:]...)
			c.mustRecord(c.a, n, fast.Record{ID: "r000-x", Text: "older than all others"})
			c.hasRecords(n, append(want, fast.Record{ID: "s0", Text: "of another series"}))
		},
	},
	{
		name:   "record/limits",
		clause: "Record checks the records: ErrInvalid, and nothing is kept. The longest name, ID and text are kept as they are.",
		f: func(c *check) {
			n := c.newName()
			good := fast.Record{ID: "r1", Text: "good"}
			for _, bad := range []fast.Record{
				{ID: "", Text: "x"}, {ID: "1", Text: "x"}, {ID: "r/x", Text: "x"}, {ID: strings.Repeat("r", fast.MaxRecordID+1), Text: "x"},
				{ID: "r", Text: ""}, {ID: "r", Text: strings.Repeat("x", fast.MaxRecord+1)}, {ID: "r", Text: "\xff"}, {ID: "r", Text: "\x00"},
			} {
				if err := c.a.Record(c.ctx, n, []fast.Record{good, bad}); !errors.Is(err, driver.ErrInvalid) {
					c.errorf("Record of %.60q returns %v, want ErrInvalid", bad, err)
				}
			}
			c.hasRecords(n, nil)
			n += strings.Repeat("\xff", c.maxName()-len(n))
			longest := fast.Record{ID: strings.Repeat("z", fast.MaxRecordID), Text: strings.Repeat("é", fast.MaxRecord/2)}
			c.mustRecord(c.a, n, longest)
			c.hasRecords(n, []fast.Record{longest})
		},
	},
	{
		name:   "record/names",
		clause: "Recorded returns the records of the names that begin with prefix, byte for byte, whatever bytes they have.",
		f: func(c *check) {
			stem := c.newName() + "/"
			c.mustRecord(c.a, c.newName(), fast.Record{ID: "r", Text: "x"})
			var names []string
			for _, odd := range []string{"a", "A", "a ", "\x00", "\n", "{a}", "../a", "\xff", "%", "_", "*", "a*", "[a]", "'", "\\"} {
				names = append(names, stem+odd)
				c.mustRecord(c.a, stem+odd, fast.Record{ID: "r", Text: "x"}, fast.Record{ID: "s", Text: "x"})
			}
			c.recorded(stem, names)
			c.recorded(stem+"*", []string{stem + "*"})
			c.recorded(stem+"nobody", nil)
		},
	},
	{
		name:   "record/newest",
		clause: "If more names have records, Recorded returns those for which something was recorded last.",
		f: func(c *check) {
			stem, start := c.newName()+"/", time.Now()
			for i, name := range []string{"b", "c", "a", "b"} { // ids begin with a series and then grow with time, as in a history
				c.mustRecord(c.a, stem+name, fast.Record{ID: fmt.Sprintf("%c%d", "rs"[i%2], start.Add(time.Duration(i)*time.Second).UnixNano()), Text: "x"})
			}
			c.mustRecord(c.a, c.newName(), fast.Record{ID: fmt.Sprintf("r%d", start.Add(time.Hour).UnixNano()), Text: "x"}) // newer, and not asked for
			got, err := c.b.Recorded(c.ctx, stem, 2)
			if err != nil || len(got) != 2 || len(got[stem+"a"]) != 1 || len(got[stem+"b"]) != 2 {
				c.failf("Recorded(2 names) returns %q, %v; want those of a and b", got, err)
			}
		},
	},
}

// mustRecord writes records. It tries again while the store cannot be reached.
func (c *check) mustRecord(cl *client, name string, rs ...fast.Record) {
	if err := c.answered(func() error { return cl.Record(c.ctx, name, rs) }); err != nil {
		c.failf("Record: %v", err)
	}
}

// hasRecords checks that every process finds exactly these records.
func (c *check) hasRecords(name string, want []fast.Record) {
	for _, cl := range []*client{c.a, c.b} {
		got, err := cl.Records(c.ctx, name)
		if err != nil || !slices.Equal(got, want) {
			c.failf("Records returns %d records, %.200q, %v; want %d, %.200q", len(got), got, err, len(want), want)
		}
	}
}

// recorded checks for which names Recorded finds the records that Records returns.
func (c *check) recorded(prefix string, want []string) {
	got, err := c.b.Recorded(c.ctx, prefix, 1000)
	if err != nil || len(got) != len(want) {
		c.failf("Recorded(%q) returns %q, %v; want the records of %q", prefix, got, err, want)
	}
	for _, name := range want {
		if records, err := c.b.Records(c.ctx, name); err != nil || len(records) == 0 || !slices.Equal(got[name], records) {
			c.failf("Recorded(%q) returns %q for %q, and Records %q, %v", prefix, got[name], name, records, err)
		}
	}
}
