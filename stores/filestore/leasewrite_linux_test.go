package filestore

import (
	"os"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
)

// If a process is killed while it copies a record into the mapped page, the record is damaged, and
// a damaged lease would free the name. So a lease is written by a system call. The test exchanges
// the mapped page for a copy: a lease that is written into the copy does not reach the file.
func TestLeasesAreWrittenWhole(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	for range hotUses + 1 {
		take(t, s, request("job", "us"))
		release(t, s, "job", "us", driver.OutcomeReleased)
	}
	c := s.files["job"].spare
	if c.page == nil {
		t.Skip("the first page of the file is not mapped")
	}
	mapped := c.page
	defer func() { c.page = mapped }()
	inFile := func() (r record) {
		text, err := os.ReadFile(s.files["job"].path)
		if err != nil {
			t.Fatal(err)
		}
		c.page = make([]byte, pageSize)
		copy(c.page, text)
		r.decode(text)
		return r
	}
	inFile()
	r := request("job", "key")
	r.Detached, r.TTL = true, time.Minute
	take(t, s, r)
	before := inFile()
	if _, ok := before.hasLease("key", time.Now()); !ok {
		t.Fatal("the lease is not in the file")
	}
	if _, err := s.Extend(t.Context(), "job", "key", time.Hour); err != nil {
		t.Fatal(err)
	}
	if after := inFile(); after.cool.wall <= before.cool.wall {
		t.Error("the longer lease is not in the file")
	}
	release(t, s, "job", "key", driver.OutcomeReleased)
	if after := inFile(); after.lease.taken() {
		t.Error("the end of the lease is not in the file")
	}
}
