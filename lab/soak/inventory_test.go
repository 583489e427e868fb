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
	before, blind := Count("testing.tRunner"), Count("soak.stay")
	end := make(chan struct{})
	defer close(end)
	for range 20 { // goroutines of earlier tests may end meanwhile, but fewer than 20
		go stay(end)
	}
	if Count("testing.tRunner").Beyond(before) == "" {
		t.Error("a goroutine more is not seen")
	}
	if what := blind.Settle().Beyond(blind); what != "" {
		t.Error("a goroutine that is excepted is seen: " + what)
	}
	f, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if Count("soak.stay").Beyond(blind) == "" {
		t.Error("an open file is not seen")
	}
}
