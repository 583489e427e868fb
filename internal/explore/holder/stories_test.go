package holder

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
)

// TestStories tells again how the explorer has found each of its mutants. Nothing is broken today.
// With the mutant of a story planted, the test of that story is red.
//
// Where the code does not do what the mutant did, a later step may not be possible. Then the story
// ends before that step, and all goes well from there on.
func TestStories(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			s, steps, err := readStory(string(text))
			if err != nil {
				t.Fatal(err)
			}
			if err := s.tell(t, steps); err != nil {
				t.Errorf("%v, after %q", err, steps)
			}
		})
	}
}

// readStory reads a story: comments, a line with the space, and the steps.
func readStory(text string) (s *space, steps []string, err error) {
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		name, isSpace := strings.CutPrefix(line, "space: ")
		switch {
		case line == "" || line[0] == '#':
		case isSpace:
			for i := range spaces {
				if spaces[i].name == name {
					s = &spaces[i]
				}
			}
		default:
			steps = append(steps, line)
		}
	}
	if s == nil {
		return nil, nil, fmt.Errorf("no line names a space")
	}
	return s, steps, nil
}

// tell makes one run, and returns the promise that it breaks.
func (s *space) tell(t *testing.T, steps []string) (broken error) {
	defer recovered(&broken)
	synctest.Test(t, func(*testing.T) {
		w := newWorld(s)
		for _, label := range steps {
			if broken = w.broken; broken != nil || !w.take(label) {
				break
			}
		}
		w.end()
		broken = w.broken
	})
	return broken
}
