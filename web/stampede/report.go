package stampede

import (
	"context"
	"log/slog"
	"runtime/debug"
)

// report calls OnError and recovers its panics, because nobody else could recover them in the
// background.
func (s *settings) report(ctx context.Context, key string, err error) {
	if s.onError == nil || err == nil {
		return
	}
	defer func() {
		if p := recover(); p != nil {
			slog.ErrorContext(ctx, "stampede: OnError panicked", "key", key, "panic", p, "stack", string(debug.Stack()))
		}
	}()
	s.onError(ctx, key, err)
}
