package natsstore

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit"
	"github.com/padlock-go/padlock/storekit/register"
)

// refusal returns the error of JetStream in a reply, or one without a code.
func refusal(err error) jetstream.APIError {
	var e *jetstream.APIError
	if errors.As(err, &e) {
		return *e
	}
	return jetstream.APIError{}
}

// asChanged makes a register.ErrChanged of the error for a message that is not the last one of its
// subject any more. The second code means that another one is on its way to the replicas.
func asChanged(err error) error {
	switch refusal(err).ErrorCode {
	case jetstream.JSErrCodeStreamWrongLastSequence, jetstream.JSErrCodeStreamWrongLastSequenceConstant:
		return register.ErrChanged
	}
	return err
}

// final reports whether a reply says what was done. After a code from 500 the server may have
// stored a message, unless the bucket is full.
func final(err error) bool {
	e := refusal(err)
	return err == nil || errors.Is(err, register.ErrChanged) || errors.Is(err, driver.ErrUnavailable) || e.Code > 0 && e.Code < 500 || strings.HasPrefix(e.Description, "maximum ")
}

// explain says what probably is the matter if there was no reply. said is what a server said lately
// outside of a reply.
func explain(err, said error) error {
	switch {
	case errors.Is(err, nats.ErrNoResponders), errors.Is(err, jetstream.ErrNoStreamResponse), errors.Is(err, jetstream.ErrJetStreamNotEnabled):
		return errors.New("nobody answers for the bucket: its servers elect a leader, or have no JetStream")
	case errors.Is(err, nats.ErrReconnectBufExceeded):
		return errors.New("the connection is lost")
	case said != nil: // a server sends no reply to a request without a right
		return said
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return errors.New("there was no reply, or the connection was lost")
	}
	return err
}

// failure returns the error of a request as package register wants it.
func failure(err error, bucket string) error {
	switch {
	case errors.Is(err, register.ErrChanged):
		return err
	case errors.Is(err, jetstream.ErrStreamNotFound), errors.Is(err, jetstream.ErrBucketNotFound):
		return fmt.Errorf("%w: there is no bucket %s: if it was lost, wait for the longest lease; then make it with padlock schema --upgrade", driver.ErrUnavailable, bucket)
	}
	return storekit.Failure(err)
}
