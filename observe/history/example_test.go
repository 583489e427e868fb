package history_test

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/padlock-go/padlock/observe/history"
)

func Example() {
	dir, err := os.MkdirTemp("", "history")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	log := history.Open(dir, "", nil) // with a store as the second argument, all its machines share the history

	run := history.Run{Name: "nightly-report", Start: time.Now(), Slot: -1}
	run.ID = history.NewID(run.Start, false)
	w := log.Writer()
	w.Put(run) // at the start
	run.End, run.Exit = time.Now(), 3
	w.Put(run) // at the end
	if err := w.Wait(context.Background()); err != nil {
		panic(err)
	}

	runs, err := log.Runs(context.Background(), "nightly-report")
	if err != nil {
		panic(err)
	}
	for _, r := range runs {
		fmt.Println(r.Name, r.Outcome(), r.Exit)
	}
	// Output: nightly-report failure 3
}
