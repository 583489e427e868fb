package main

import (
	"context"
	"fmt"
	"os"
	"runtime/coverage"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/open/all"
)

func main() {
	must(run(os.Args[1], os.Args[2]))
}

func run(url, dir string) error {
	ctx := context.Background()
	store, err := all.Store(ctx, url)
	if err != nil {
		return err
	}
	l := padlock.New(store)
	for i := range 3 {
		pair(ctx, l, fmt.Sprint("warm-", i))
	}
	time.Sleep(300 * time.Millisecond)
	must(coverage.ClearCounters())
	pair(ctx, l, "job")
	must(coverage.WriteCountersDir(dir))
	return coverage.WriteMetaDir(dir)
}

func pair(ctx context.Context, l *padlock.Locker, name string) {
	k, err := l.Acquire(ctx, name)
	must(err)
	must(k.Release())
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
