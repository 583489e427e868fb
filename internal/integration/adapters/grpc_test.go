package adapters

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/padlocktest"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

// slow is a service whose calls last until a test ends them.
type slow struct {
	grpc_health_v1.UnimplementedHealthServer
	check func(ctx context.Context, service string) error
}

func (s slow) Check(ctx context.Context, r *grpc_health_v1.HealthCheckRequest) (*grpc_health_v1.HealthCheckResponse, error) {
	return &grpc_health_v1.HealthCheckResponse{}, s.check(ctx, r.GetService())
}

// serve starts a server, and returns its address.
func serve(l *padlock.Locker, check func(ctx context.Context, service string) error) (*grpc.Server, string, error) {
	s := grpc.NewServer(grpc.UnaryInterceptor(oneCallAtATime(l, func(req any) string {
		return req.(*grpc_health_v1.HealthCheckRequest).GetService()
	})))
	grpc_health_v1.RegisterHealthServer(s, slow{check: check})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, "", err
	}
	go s.Serve(listener)
	return s, listener.Addr().String(), nil
}

// serveCalls is a server whose calls last until the test says a line.
func serveCalls(p *process) error {
	end := make(chan struct{})
	s, address, err := serve(p.locker, func(context.Context, string) error {
		p.say("runs")
		<-end
		return nil
	})
	if err != nil {
		return err
	}
	p.say(address)
	for p.next() {
		end <- struct{}{}
	}
	s.GracefulStop()
	return nil
}

// client returns a client of a server.
func client(t *testing.T, address string) grpc_health_v1.HealthClient {
	t.Helper()
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return grpc_health_v1.NewHealthClient(conn)
}

// dial starts a server in the process of the test, and returns a client of it.
func dial(t *testing.T, l *padlock.Locker, check func(ctx context.Context, service string) error) grpc_health_v1.HealthClient {
	t.Helper()
	s, address, err := serve(l, check)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	return client(t, address)
}

func call(ctx context.Context, c grpc_health_v1.HealthClient, service string) error {
	_, err := c.Check(ctx, &grpc_health_v1.HealthCheckRequest{Service: service})
	return err
}

// A second call with the same key, at another server in another process, is aborted and learns when
// to come again.
func TestGRPCOnTwoServers(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, url, dir string) {
		a := start(t, "grpc", url, dir)
		first := client(t, a.hear())
		second := dial(t, newLocker(t, url), func(context.Context, string) error { return status.Error(codes.NotFound, "no such thing") })
		done := make(chan error, 1)
		go func() { done <- call(t.Context(), first, "invoice:42") }()
		if got := a.hear(); got != "runs" {
			t.Fatal(got)
		}
		s := status.Convert(call(t.Context(), second, "invoice:42"))
		var retry *errdetails.RetryInfo
		if len(s.Details()) == 1 {
			retry, _ = s.Details()[0].(*errdetails.RetryInfo)
		}
		if s.Code() != codes.Aborted || retry.GetRetryDelay().AsDuration() <= 0 {
			t.Errorf("%v, %v", s, retry)
		}
		if err := call(t.Context(), second, ""); status.Code(err) != codes.NotFound {
			t.Errorf("a call without a key: %v", err)
		}
		a.tell("end")
		if err := <-done; err != nil {
			t.Error(err)
		}
		if err := call(t.Context(), second, "invoice:42"); status.Code(err) != codes.NotFound {
			t.Errorf("after the first call: %v", err)
		}
	})
}

// The lock is lost during a call, or the client cancels the call.
func TestGRPCLossAndCancel(t *testing.T) {
	t.Parallel()
	l, script := padlocktest.New(t)
	runs, cause := make(chan struct{}), make(chan error, 1)
	c := dial(t, l, func(ctx context.Context, service string) error {
		if service == "lost" {
			script.Lose("lost")
		} else {
			close(runs)
		}
		<-ctx.Done()
		cause <- context.Cause(ctx)
		return nil
	})
	if err := call(t.Context(), c, "lost"); status.Code(err) != codes.Unknown {
		t.Error(err)
	}
	if err := <-cause; !errors.Is(err, padlock.ErrLost) {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-runs; cancel() }()
	if err := call(ctx, c, "cancelled"); status.Code(err) != codes.Canceled {
		t.Error(err)
	}
	<-cause
	lock, err := l.Acquire(t.Context(), "cancelled", padlock.Wait(10*time.Second))
	if err != nil {
		t.Errorf("the lock was not released: %v", err)
	}
	lock.Release()
	script.Fail(padlocktest.Acquire, 1, padlock.ErrUnavailable)
	if err := call(t.Context(), c, "away"); status.Code(err) != codes.Unavailable {
		t.Error(err)
	}
}

// A lock that did not last makes a reply uncertain, even if the handler did not look at its
// context. The handler's own error stays, because it says more. A release that the store has merely
// not confirmed is no loss: the reply stands, and nobody repeats the call.
func TestGRPCLasted(t *testing.T) {
	t.Parallel()
	noted := status.Error(codes.NotFound, "no such invoice")
	for name, c := range map[string]struct {
		during func(l *padlock.Locker, script *padlocktest.Script)
		reply  error
		want   codes.Code
	}{
		"lost":                  {func(_ *padlock.Locker, s *padlocktest.Script) { s.Lose("invoice:42") }, nil, codes.Unknown},
		"lost, with an error":   {func(_ *padlock.Locker, s *padlocktest.Script) { s.Lose("invoice:42") }, noted, codes.NotFound},
		"another client has it": {takeOver, nil, codes.Unknown},
		"the Locker is closed":  {func(l *padlock.Locker, _ *padlocktest.Script) { l.Close(context.Background()) }, nil, codes.Unknown},
		"release is unconfirmed": {func(_ *padlock.Locker, s *padlocktest.Script) {
			s.Fail(padlocktest.Release, padlocktest.Always, padlock.ErrUncertain)
		}, nil, codes.OK},
		"held until the end": {func(*padlock.Locker, *padlocktest.Script) {}, nil, codes.OK},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, script := padlocktest.New(t)
			client := dial(t, l, func(context.Context, string) error { c.during(l, script); return c.reply })
			if err := call(t.Context(), client, "invoice:42"); status.Code(err) != c.want {
				t.Errorf("%v, want %v", err, c.want)
			}
		})
	}
}

// takeOver lets another client take the lock of a call at work.
func takeOver(_ *padlock.Locker, s *padlocktest.Script) {
	s.Lose("invoice:42")
	s.Hold("invoice:42", padlock.Hold{})
}
