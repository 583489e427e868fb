package semstore

import (
	"os"
	"regexp"
	"testing"
)

// A setState has the values of the three semaphores of a set. The field held is true if one of the
// users has the lock.
type setState struct {
	lock, users, guard int
	held               bool
}

// next returns the states that can follow s, with at most three users.
func (s setState) next() (out []setState) {
	if s.guard == 0 && s.users < 3 {
		out = append(out, setState{s.lock, s.users + 1, 1, s.held}) // a program opens the set
	}
	if s.guard == 1 {
		lock := s.lock
		if s.users == 1 {
			lock = 1
		}
		out = append(out, setState{lock, s.users, 0, s.held}, setState{s.lock, s.users - 1, 0, s.held}) // it finishes, or is killed
	}
	if ready := s.users - s.guard; s.lock == 1 && ready > 0 {
		out = append(out, setState{0, s.users, s.guard, true}, setState{1, s.users - 1, s.guard, false}) // another user takes the lock, or leaves
	}
	if s.held {
		out = append(out, setState{1, s.users - 1, s.guard, false}) // the holder is killed
	}
	return out
}

// The table in layout.go has a row for each state that a set can have.
func TestStatesOfASet(t *testing.T) {
	text, err := os.ReadFile("layout.go")
	if err != nil {
		t.Fatal(err)
	}
	rows := map[[3]string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^//\t([01]) +([01n]) +([01]) +[a-z]+ `).FindAllSubmatch(text, -1) {
		rows[[3]string{string(m[1]), string(m[2]), string(m[3])}] = true
	}
	digit := func(n int) string { return string(rune('0' + n)) }
	seen := map[setState]bool{}
	for todo := []setState{{}}; len(todo) > 0; todo = todo[1:] {
		s := todo[0]
		if seen[s] {
			continue
		}
		seen[s] = true
		todo = append(todo, s.next()...)
		lock, guard := digit(s.lock), digit(s.guard)
		if !rows[[3]string{lock, digit(s.users), guard}] && (s.users == 0 || !rows[[3]string{lock, "n", guard}]) {
			t.Errorf("the table has no row for lock %d, users %d, guard %d", s.lock, s.users, s.guard)
		}
	}
	if len(rows) != 7 || len(seen) < len(rows) {
		t.Errorf("the table has %d rows, and a set can have %d states", len(rows), len(seen))
	}
}
