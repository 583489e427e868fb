package soak

import (
	"os"
	"runtime"
	"testing"
)

func stay(c chan struct{}) { <-c }

func TestLeft(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("descriptors are counted on Linux only")
	}
	before, end := Count(), make(chan struct{})
	for range 20 { // goroutines of earlier tests may end meanwhile, but fewer than 20
		go stay(end)
	}
	if Count().Beyond(before) == "" {
		t.Error("a goroutine more is not seen")
	}
	close(end)
	if what := before.Settle().Beyond(before); what != "" {
		t.Error("goroutines that have ended are seen: " + what)
	}
	f, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if Count().Descriptors <= before.Descriptors {
		t.Error("an open file is not seen")
	}
}
