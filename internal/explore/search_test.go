package explore_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/padlock-go/padlock/internal/explore"
)

// jugs is a puzzle: with jugs of 3 and 5 litres, 4 litres are reached in six steps at least.
type jugs struct{ three, five int }

func pour(broken int) func(jugs) []explore.Edge[jugs] {
	return func(j jugs) []explore.Edge[jugs] {
		there, back := min(j.three, 5-j.five), min(j.five, 3-j.three)
		edges := []explore.Edge[jugs]{
			{Label: "fill three", To: jugs{3, j.five}}, {Label: "fill five", To: jugs{j.three, 5}},
			{Label: "empty three", To: jugs{0, j.five}}, {Label: "empty five", To: jugs{j.three, 0}},
			{Label: "three to five", To: jugs{j.three - there, j.five + there}},
			{Label: "five to three", To: jugs{j.three + back, j.five - back}},
		}
		for i := range edges {
			if edges[i].To.five == broken {
				edges[i].Broken = errors.New("reached")
			}
		}
		return edges
	}
}

func TestSearch(t *testing.T) {
	t.Parallel()
	key := func(j jugs) string { return fmt.Sprint(j) }
	all := explore.Search(context.Background(), jugs{}, key, pour(-1), 1000)
	if !all.Complete || all.States != 16 || all.Transitions != 96 || all.Broken != nil {
		t.Errorf("the whole puzzle: %+v, want 16 states, 6 edges from each", all)
	}
	want := []string{"fill five", "five to three", "empty three", "five to three", "fill five", "five to three"}
	if got := explore.Search(context.Background(), jugs{}, key, pour(4), 1000); !slices.Equal(got.Trace, want) {
		t.Errorf("the shortest way is %q, want %q", got.Trace, want)
	}
	if got := explore.Search(context.Background(), jugs{}, key, pour(-1), 7); got.Complete || got.States != 7 {
		t.Errorf("with at most 7 states: %+v", got)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if got := explore.Search(ctx, jugs{}, key, pour(-1), 1000); got.Complete {
		t.Errorf("a search without time says that it is complete: %+v", got)
	}
}
