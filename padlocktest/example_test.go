package padlocktest_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/padlocktest"
)

// importRows is what is to be tested: it must stop when its lock is lost.
func importRows(ctx context.Context, rows int, each func(row int)) error {
	for row := range rows {
		if ctx.Err() != nil {
			return fmt.Errorf("stopped before row %d: %w", row, context.Cause(ctx))
		}
		each(row)
	}
	return nil
}

// In a test, padlocktest.New(t) makes the Script and the Locker, and closes the Locker at the end.
func ExampleScript_Lose() {
	script := padlocktest.NewScript()
	locker := padlock.New(script)
	defer locker.Close(context.Background())

	err := locker.Do(context.Background(), "import", func(ctx context.Context) error {
		return importRows(ctx, 100, func(row int) {
			if row == 2 {
				script.Lose("import") // somebody else has it now
			}
		})
	})
	fmt.Println("lost:", errors.Is(err, padlock.ErrLost))
	// Output:
	// lost: true
}

func ExampleScript_Hold() {
	script := padlocktest.NewScript()
	locker := padlock.New(script)
	defer locker.Close(context.Background())

	free := script.Hold("backup", padlock.Hold{Holder: driver.Holder{Host: "db7", PID: 4711, Label: "nightly"}})
	_, err := locker.TryAcquire(context.Background(), "backup")
	var held *padlock.HeldError
	if errors.As(err, &held) {
		fmt.Println(held.Holds[0].Host, "does its", held.Holds[0].Label)
	}
	free()
	_, err = locker.TryAcquire(context.Background(), "backup")
	fmt.Println(err)
	// Output:
	// db7 does its nightly
	// <nil>
}

func ExampleScript_LoseReplies() {
	script := padlocktest.NewScript()
	locker := padlock.New(script)
	defer locker.Close(context.Background())

	script.LoseReplies(padlocktest.Acquire, padlocktest.Always)
	_, err := locker.TryAcquire(context.Background(), "job")
	fmt.Println("uncertain:", errors.Is(err, padlock.ErrUncertain))
	// Output:
	// uncertain: true
}
