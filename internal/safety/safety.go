// Package safety is how a test says that padlock broke a promise of safety: two hold one lock, a
// fence does not rise, or something was granted too early. Every such message begins with [Mark],
// which stands nowhere else in the tree, and the gate excuses no failed test that prints it. So a
// test that checks a promise of safety in words of its own could be excused as flaky; the tests of
// internal/house find most such checks.
//
// The functions that take a [T] report to a test and return. FenceRises, FenceKeeps and the
// functions named Err are for code that returns errors, as drivertest and the soak do.
package safety

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
)

// Mark is the beginning of each message about broken safety.
const Mark = "SAFETY: "

// T is what the functions need of a testing.TB.
type T interface {
	Helper()
	Errorf(format string, args ...any)
}

// Rises fails the test unless fence is greater than before, the fence of the grant before it. It
// returns whether it is. What the test was doing follows in about.
func Rises[N cmp.Ordered](t T, fence, before N, about ...any) bool {
	t.Helper()
	return told(t, FenceRises(fence, before), about)
}

// Keeps fails the test if fence is smaller than before. Readers may share the fence of the readers
// before them, and a repeated call may return the fence that it returned before.
func Keeps[N cmp.Ordered](t T, fence, before N, about ...any) bool {
	t.Helper()
	return told(t, FenceKeeps(fence, before), about)
}

// TwoHold fails the test because two callers hold what only one may have, or more callers hold
// permits than there are.
func TwoHold(t T, format string, args ...any) {
	t.Helper()
	told(t, ErrTwoHold(format, args...), nil)
}

// Refused fails the test if err is nil, and with it the grant of a name that another holds or that
// cools down.
func Refused(t T, err error, name string) {
	t.Helper()
	if err == nil {
		TwoHold(t, "%q is granted, and is not free", name)
	}
}

// TooEarly fails the test because a lock was granted, or a lease has ended, before its time.
func TooEarly(t T, format string, args ...any) {
	t.Helper()
	told(t, ErrTooEarly(format, args...), nil)
}

// Broken fails the test because another promise is broken that protects data: padlock has changed
// what belongs to an application, or a lost lock counts as held.
func Broken(t T, format string, args ...any) {
	t.Helper()
	told(t, ErrBroken(format, args...), nil)
}

// FenceRises returns an error unless fence is greater than before.
func FenceRises[N cmp.Ordered](fence, before N) error {
	if fence > before {
		return nil
	}
	return fmt.Errorf("%sfence %v after %v", Mark, fence, before)
}

// FenceKeeps returns an error if fence is smaller than before.
func FenceKeeps[N cmp.Ordered](fence, before N) error {
	if fence >= before {
		return nil
	}
	return fmt.Errorf("%sfence %v after %v", Mark, fence, before)
}

// ErrTwoHold returns the error that TwoHold reports.
func ErrTwoHold(format string, args ...any) error { return broken("two hold: ", format, args) }

// ErrTooEarly returns the error that TooEarly reports.
func ErrTooEarly(format string, args ...any) error { return broken("too early: ", format, args) }

// ErrBroken returns the error that Broken reports.
func ErrBroken(format string, args ...any) error { return broken("", format, args) }

// broken makes the error. A message that is made of others has the mark only once.
func broken(what, format string, args []any) error {
	return errors.New(Mark + what + strings.ReplaceAll(fmt.Sprintf(format, args...), Mark, ""))
}

func told(t T, err error, about []any) bool {
	t.Helper()
	switch {
	case err == nil:
		return true
	case len(about) == 0:
		t.Errorf("%v", err)
	default:
		t.Errorf("%v: %s", err, strings.TrimSuffix(fmt.Sprintln(about...), "\n"))
	}
	return false
}
