// Package reads counts the requests by which a store reads names one by one, so that whoever lists
// names again and again can tell what that costs.
package reads

import (
	"context"
	"sync/atomic"
)

type key struct{}

// Count returns a context in which Add counts, and the counter.
func Count(ctx context.Context) (context.Context, *atomic.Int64) {
	n := new(atomic.Int64)
	return context.WithValue(ctx, key{}, n), n
}

// Add counts n requests.
func Add(ctx context.Context, n int) {
	if counter, ok := ctx.Value(key{}).(*atomic.Int64); ok {
		counter.Add(int64(n))
	}
}
