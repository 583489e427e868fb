// Command entered takes and releases one free lock. The functions and files of padlock that this
// enters are the places that a reader has to visit. These commands list them, in the folder lab:
//
//	P=github.com/padlock-go/padlock
//	mkdir /tmp/entered && go run -cover -covermode=atomic \
//		-coverpkg=$P,$P/driver,$P/storekit/...,$P/stores/...,$P/internal/...,$P/lab/entered \
//		./entered redis://127.0.0.1:6379 /tmp/entered
//	go tool covdata func -i=/tmp/entered | grep -v -e "^total" -e lab/ -e '[[:space:]]0.0%$'
//
// A function of a background goroutine that happens to run at that moment is listed too. At its end
// the program warns that GOCOVERDIR is not set, which is right: nothing but the lock counts.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"runtime/coverage"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/open/all"
)

func main() {
	if len(os.Args) != 3 {
		log.Fatal("usage: entered URL DIRECTORY")
	}
	if err := lockOnce(os.Args[1], os.Args[2]); err != nil {
		log.Fatal(err)
	}
}

// lockOnce takes and releases one lock, and writes the counters of that to dir.
func lockOnce(url, dir string) error {
	ctx := context.Background()
	store, err := all.Store(ctx, url)
	if err != nil {
		return err
	}
	l := padlock.New(store)
	defer l.Close(ctx)
	pair := func(name string) error {
		k, err := l.Acquire(ctx, name)
		if err != nil {
			return err
		}
		return k.Release()
	}
	for i := range 3 { // the first locks connect, and load scripts
		if err := pair(fmt.Sprint("entered:before:", i)); err != nil {
			return err
		}
	}
	<-time.After(300 * time.Millisecond) // then background work is done
	if err := coverage.ClearCounters(); err != nil {
		return err
	}
	if err := pair("entered:now"); err != nil {
		return err
	}
	return errors.Join(coverage.WriteCountersDir(dir), coverage.WriteMetaDir(dir))
}
