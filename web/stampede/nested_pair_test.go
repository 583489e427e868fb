package stampede_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/padlock-go/padlock/web/stampede"
)

// Two functions that need each other's value are begun from both sides, in two processes. Only
// TimeLimit ends them, and the errors name both keys.
func TestTwoValuesThatNeedEachOther(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFleet(t, 2, stampede.TimeLimit(time.Minute))
		other := map[string]string{"a": "b", "b": "a"}
		var both sync.WaitGroup
		both.Add(2)
		errs := make(chan error, 2)
		began := time.Now()
		for i, key := range []string{"a", "b"} {
			go func() {
				_, err := stampede.Remember(t.Context(), f.caches[i], key, time.Hour, func(ctx context.Context) (string, error) {
					both.Done()
					both.Wait()
					return stampede.Remember(ctx, f.caches[i], other[key], time.Hour, func(context.Context) (string, error) { return "", nil })
				})
				errs <- err
			}()
		}
		for range 2 {
			if err := <-errs; !errors.Is(err, stampede.ErrTimeLimit) || !strings.Contains(err.Error(), `"a"`) || !strings.Contains(err.Error(), `"b"`) {
				t.Errorf("after %v: %v", time.Since(began), err)
			}
		}
	})
}
