// Package storekit has what most stores need besides their server: what a failed request means for
// the caller, calls that are counted and bounded in time, work in the background, keys for names,
// and the report of a holder. It is for authors of stores. A program that uses locks does not need
// it.
//
// The packages below it are larger pieces:
//
//   - storeurl reads the URLs of stores;
//   - decide makes the decision about one lock;
//   - overhttp sends requests to a service over HTTP;
//   - aws signs them for services of Amazon;
//   - register is a whole store over a register with compare-and-set;
//   - advisory is a whole store over locks that end with their connection.
package storekit

import (
	"crypto/sha256"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/padlock-go/padlock/driver"
)

// Apply applies the options of a store to its settings. An option that is nil is left out.
func Apply[O ~func(*C), C any](settings *C, opts []O) {
	for _, set := range opts {
		if set != nil {
			set(settings)
		}
	}
}

// HoldOf describes a hold that began at the given time. If the holder has said how long its work
// takes, the planned end is set.
func HoldOf(h driver.Holder, shared bool, since time.Time) driver.Hold {
	out := driver.Hold{Holder: h, Shared: shared, Since: since}
	if h.Plan > 0 {
		out.PlannedEnd = since.Add(h.Plan)
	}
	return out
}

// A HoldID is what a store finds a hold by in a map. It has a digest in place of the token, because
// printers show the keys of a map.
type HoldID struct {
	name   string
	digest [sha256.Size]byte
}

// IDOf returns the HoldID of the hold that token has on name.
func IDOf(name, token string) HoldID { return HoldID{name, sha256.Sum256([]byte(token))} }

// OlderVersion reports whether a version, such as "3.6.4-rc1", is older than limit, such as 3, 6, 5.
// It returns false if it cannot read the version.
func OlderVersion(version string, limit ...int) bool {
	core, _, _ := strings.Cut(version, "-")
	var parts []int
	for part := range strings.SplitSeq(core, ".") {
		n, err := strconv.Atoi(part)
		if err != nil {
			return false
		}
		parts = append(parts, n)
	}
	return slices.Compare(parts, limit) < 0
}
