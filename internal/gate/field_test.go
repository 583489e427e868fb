package main

import (
	"slices"
	"testing"
)

func TestUnshown(t *testing.T) {
	const page = "# Failures\n\n| what | padlock | test |\n|---|---|---|\n" +
		"| a | holds | `session:TestA/sub` |\n" +
		"| b | holds | `session:TestB` |\n" +
		"| c | holds | none |\n" +
		"\n| what | padlock | test |\n|---|---|---|\n" +
		"| d | holds | `.:TestUnshown`* |\n" +
		"| e | holds | `.:TestGone`* |\n" +
		"| f | holds | `.:TestF` |\n"
	passed := map[test]bool{{root + "/session", "TestA/sub"}: true, {root, "TestF"}: true}
	want := []string{"| b | holds | `session:TestB` |", "| c | holds | none |", "| e | holds | `.:TestGone`* |"}
	if got := unshown([]byte(page), passed, false); !slices.Equal(got, want) {
		t.Errorf("tier 1: %q", got)
	}
	want = slices.Insert(want, 2, "| d | holds | `.:TestUnshown`* |")
	if got := unshown([]byte(page), passed, true); !slices.Equal(got, want) {
		t.Errorf("both tiers: %q", got)
	}
}
