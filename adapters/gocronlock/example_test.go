package gocronlock_test

import (
	"context"
	"fmt"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/adapters/gocronlock"
	"github.com/padlock-go/padlock/stores/memstore"
)

func ExampleTask() {
	locker := padlock.New(memstore.New())
	defer locker.Close(context.Background())
	scheduler, err := gocron.NewScheduler()
	if err != nil {
		fmt.Println(err)
		return
	}
	done := make(chan bool)
	report := func(ctx context.Context) error { // ctx ends when the lock is lost
		fmt.Println("the report is made")
		close(done)
		return nil
	}
	task := gocronlock.Task(locker, "report", report, padlock.HoldAtLeast(time.Minute))
	if _, err := scheduler.NewJob(gocron.OneTimeJob(gocron.OneTimeJobStartImmediately()), task); err != nil {
		fmt.Println(err)
		return
	}
	scheduler.Start()
	<-done
	fmt.Println(scheduler.Shutdown())
	// Output:
	// the report is made
	// <nil>
}
