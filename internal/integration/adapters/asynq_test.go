package adapters

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/padlocktest"
)

// A task whose key is held comes again, and uses up no retry.
func TestAsynqOnTwoServers(t *testing.T) {
	t.Parallel()
	redis := server.Redis(t, server.RedisOptions{})
	queue := asynq.RedisClientOpt{Addr: redis.Addr()}
	l, script := padlocktest.New(t)
	free := script.Hold("customer:7", padlock.Hold{PlannedEnd: time.Now().Add(2 * time.Second)}) // another server works on it
	done, refused := make(chan struct{}), make(chan error, 100)
	failed := make(chan error, 100)
	next := asynq.HandlerFunc(func(context.Context, *asynq.Task) error {
		close(done)
		return nil
	})
	byKey := perTask(l, func(*asynq.Task) string { return "customer:7" })
	config := waits(asynq.Config{LogLevel: asynq.FatalLevel, DelayedTaskCheckInterval: 50 * time.Millisecond})
	config.ErrorHandler = asynq.ErrorHandlerFunc(func(_ context.Context, _ *asynq.Task, err error) {
		if config.IsFailure(err) {
			failed <- err
		} else {
			refused <- err
		}
	})
	s := asynq.NewServer(queue, config)
	if err := s.Start(byKey(next)); err != nil {
		t.Fatal(err)
	}
	defer s.Shutdown()
	c := asynq.NewClient(queue)
	defer c.Close()
	if _, err := c.EnqueueContext(t.Context(), asynq.NewTask("t", nil), asynq.MaxRetry(1)); err != nil {
		t.Fatal(err)
	}
	if err := <-refused; !errors.Is(err, padlock.ErrHeld) {
		t.Error(err)
	}
	free()
	<-done
	if len(failed) > 0 {
		t.Errorf("a failure is counted: %v", <-failed)
	}
}

func TestAsynqLoss(t *testing.T) {
	t.Parallel()
	l, script := padlocktest.New(t)
	h := perTask(l, func(*asynq.Task) string { return "k" })(asynq.HandlerFunc(func(ctx context.Context, _ *asynq.Task) error {
		script.Lose("k")
		<-ctx.Done()
		return nil
	}))
	if err := h.ProcessTask(t.Context(), asynq.NewTask("t", nil)); !errors.Is(err, padlock.ErrLost) {
		t.Error(err)
	}
}
