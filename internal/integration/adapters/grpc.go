package adapters

import (
	"context"
	"errors"
	"time"

	"github.com/padlock-go/padlock"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
)

// oneCallAtATime lets one call at a time with the same key run, on all servers. A call whose key is
// "" needs no lock.
func oneCallAtATime(locker *padlock.Locker, key func(req any) string) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		name := key(req)
		if name == "" {
			return handler(ctx, req)
		}
		lock, err := locker.TryAcquire(ctx, name)
		if err != nil {
			return nil, refused(err)
		}
		defer lock.Release()
		ctx, cancel := lock.Join(ctx)
		defer cancel()
		reply, err := handler(ctx, req)
		if err == nil && lasted(lock) != nil {
			return nil, status.Error(codes.Unknown, "the lock did not last until the call was done")
		}
		return reply, err
	}
}

func refused(err error) error {
	var held *padlock.HeldError
	if !errors.As(err, &held) {
		return status.Error(codes.Unavailable, "the server could not take a lock; nothing was done")
	}
	retry := durationpb.New(held.RetryAfter(time.Second))
	s := status.New(codes.Aborted, "another call is at work on the same thing")
	if with, err := s.WithDetails(&errdetails.RetryInfo{RetryDelay: retry}); err == nil {
		s = with
	}
	return s.Err()
}
