package all_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/open"
	"github.com/padlock-go/padlock/open/all"
)

// patiently calls f again if it was slow and its error says that a store did not answer in time. On
// a machine that stands still, a member of a quorum does not answer within the 500 ms that it has.
func patiently(t *testing.T, f func() error) (err error) {
	t.Helper()
	slow := false
	server.Eventually(t, func() error {
		begun := time.Now()
		err = f()
		slow = slow || time.Since(begun) > 400*time.Millisecond
		if slow && (errors.Is(err, driver.ErrUnavailable) || errors.Is(err, driver.ErrUncertain)) {
			return err
		}
		return nil
	})
	return err
}

// every passes the schemes of all stores.
func every() open.Option { return open.Schemes(all.Schemes()...) }

// names are all beginnings of URLs, without the colon.
func names() []string {
	var names []string
	for _, s := range open.Known(every()) {
		names = append(names, s.Names...)
		for _, n := range s.Symfony {
			names = append(names, "symfony+"+n)
		}
	}
	slices.Sort(names)
	return names
}
