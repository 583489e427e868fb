package httpstore

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit"
	"github.com/padlock-go/padlock/storekit/overhttp"
)

// signer returns a function that adds the token to a request.
func signer(token func() (string, error)) func(*http.Request, []byte) error {
	return func(q *http.Request, _ []byte) error {
		q.Header.Set("User-Agent", "padlock")
		if token == nil {
			return nil
		}
		text, err := token()
		if err == nil {
			q.Header.Set("Authorization", "Bearer "+text)
		}
		return err
	}
}

// change sends a request that may change something, as one call of the store.
func (s *Store) change(ctx context.Context, op string, body any, out success) error {
	if err := s.calls.Begin(ctx); err != nil {
		return err
	}
	defer s.calls.Work.Done()
	a, err := s.ask(ctx, ctx, op, body, 0)
	return s.finish(ctx, a, err, out)
}

// look is change for a request that changes nothing: its error is never driver.ErrUncertain.
func (s *Store) look(ctx context.Context, op string, body any, out success) error {
	err := s.change(ctx, op, body, out)
	if errors.Is(err, driver.ErrUncertain) {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return fmt.Errorf("%w: %s", driver.ErrUnavailable, err)
	}
	return err
}

// finish reads a successful answer into out, and returns what an error, or another answer, means.
func (s *Store) finish(ctx context.Context, a *answer, err error, out success) error {
	switch {
	case err != nil && ctx.Err() != nil:
		if _, unsent := storekit.IsNoReply(err); unsent {
			return ctx.Err()
		}
		return fmt.Errorf("%w: %w", driver.ErrUncertain, ctx.Err())
	case err != nil:
		return storekit.Failure(err)
	case a.status != http.StatusOK:
		return a.err()
	}
	return a.read(out)
}

// ask sends a request to one server after the other, until one may have carried it out. It begins
// with the server that answered last. An answer that says that nothing was changed is returned
// only if no other server gives another answer. The error is a storekit.NoReply. A server may take
// its time for wait in addition to storekit.Patience. The end of ctx interrupts no request, but no
// other server is asked then; life interrupts requests.
func (s *Store) ask(ctx, life context.Context, op string, body any, wait time.Duration) (a *answer, err error) {
	text, err := json.Marshal(body)
	if err != nil {
		return nil, &storekit.NoReply{Err: err, Unsent: true}
	}
	life, cancel := context.WithTimeout(life, storekit.Patience+wait)
	defer cancel()
	at := int(s.first.Load())
	for n := range s.servers {
		if n > 0 && ctx.Err() != nil {
			break
		}
		server := s.servers[(at+n)%len(s.servers)]
		next, failed := send(life, server, op, text)
		if failed == nil {
			a, err = next, nil
			if !a.unchanged() {
				s.first.CompareAndSwap(int32(at), int32((at+n)%len(s.servers)))
				return a, nil
			}
			continue
		}
		if a == nil {
			err = failed
		}
		if _, unsent := storekit.IsNoReply(failed); !unsent {
			s.first.CompareAndSwap(int32(at), int32((at+n+1)%len(s.servers)))
			return nil, failed
		}
	}
	return a, err
}

const maxAnswer = 8 << 20

// send sends a request to one server. Its error is a storekit.NoReply.
func send(ctx context.Context, to server, op string, body []byte) (*answer, error) {
	reply, err := to.Stream(ctx, overhttp.Request{
		Method: http.MethodPost, Path: "v1/" + op, Body: body, Header: map[string]string{"Content-Type": "application/json"},
	})
	if err != nil {
		if bad := new(tls.CertificateVerificationError); errors.As(err, &bad) {
			err = &storekit.NoReply{Err: err, Unsent: true} // the request comes after the handshake
		}
		return nil, err
	}
	defer reply.Body.Close()
	text, err := io.ReadAll(io.LimitReader(reply.Body, maxAnswer))
	if err != nil {
		return nil, &storekit.NoReply{Err: err}
	}
	return &answer{status: reply.StatusCode, body: text, server: to.Base.Host}, nil
}
