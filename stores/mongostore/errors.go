package mongostore

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/padlock-go/padlock/driver"
)

// Codes of the server's errors.
var (
	// doubtful are errors after which the request may have been carried out: the server stopped,
	// was no longer the primary or ran out of time while it carried out the request.
	doubtful = []int{50, 64, 89, 91, 100, 189, 262, 11600, 11602}
	// notAllowed are errors about the user.
	notAllowed = []int{13, 18, 8000}
	// notPrimary are errors of a server that is not the primary.
	notPrimary = []int{10107, 13435, 13436}
	// noPipelines are errors of servers that do not know updates with pipelines.
	noPipelines = []int{9, 14, 59, 115, 168, 238, 40324}
)

const (
	adviseUser      = "the server does not accept the user, or the user may not read and write the collection"
	advisePrimary   = "no primary; more than half of the replica set must be running and see each other"
	advisePipelines = "the server does not know updates with pipelines, which MongoDB 5.0 and later have; locks that PHP shares work there, with symfony+mongodb:"
)

// failure returns the error that callers see. mayChange is true if the request could change
// something. ctx is the context of the caller.
//
// If a time limit of the store has passed, err may be a context error. The result then contains
// only the text of err, so that callers do not think that ctx has ended.
func failure(ctx context.Context, err error, mayChange bool) error {
	var refused mongo.CommandError
	var doubt mongo.WriteException
	switch {
	case err == nil:
		return nil
	case inside(err):
		return err
	case errors.As(err, &refused) && !slices.Contains(doubtful, int(refused.Code)) && !refused.HasErrorLabel("NetworkError"):
		return fmt.Errorf("%w: MongoDB: %s", driver.ErrUnavailable, advice(&refused))
	case errors.As(err, &doubt) && doubt.WriteConcernError == nil:
		return fmt.Errorf("%w: MongoDB: %s", driver.ErrUnavailable, plain(err))
	}
	awaitDeadline(ctx, err)
	sent := mayChange && !unsent(err)
	switch {
	case ctx.Err() != nil && sent:
		return errors.Join(ctx.Err(), driver.ErrUncertain)
	case ctx.Err() != nil:
		return ctx.Err()
	case sent:
		return fmt.Errorf("%w: MongoDB: %s", driver.ErrUncertain, plain(err))
	case strings.Contains(err.Error(), selection):
		return fmt.Errorf("%w: MongoDB: no primary can be reached: %s", driver.ErrUnavailable, lastError(err))
	}
	return fmt.Errorf("%w: MongoDB: %s", driver.ErrUnavailable, plain(err))
}

// awaitDeadline waits until ctx has ended, if err is about the deadline of ctx. The client may
// return such an error early: when less time is left than a round trip usually takes.
func awaitDeadline(ctx context.Context, err error) {
	if deadline, ok := ctx.Deadline(); ok && mongo.IsTimeout(err) && time.Until(deadline) < time.Second {
		<-ctx.Done()
	}
}

func inside(err error) bool {
	return errors.Is(err, driver.ErrClosed) || errors.Is(err, driver.ErrInvalid) || errors.Is(err, driver.ErrUnavailable)
}

func advice(err *mongo.CommandError) string {
	switch code := int(err.Code); {
	case slices.Contains(notAllowed, code):
		return adviseUser
	case slices.Contains(notPrimary, code):
		return advisePrimary
	case slices.Contains(noPipelines, code):
		return advisePipelines + " (" + plain(err) + ")"
	}
	return plain(err)
}

// isDuplicate reports whether err means that another process inserted the same document at the same
// time. FerretDB 2 reports that case as an internal error with the text of PostgreSQL.
func isDuplicate(err error) bool {
	return mongo.IsDuplicateKeyError(err) || err != nil && strings.Contains(err.Error(), "duplicate key value violates unique constraint")
}

// If the client found no server for a request, its error contains this text.
const selection = "server selection error"

// lastError returns why the client found no server. It is only a part of the client's own error,
// which describes all servers.
func lastError(err error) string {
	_, last, found := strings.Cut(err.Error(), "Last error: ")
	if !found {
		return "no server answers"
	}
	last, _, _ = strings.Cut(last, " }")
	return plain(errors.New(last))
}

// unsent reports whether the request was not sent: no server was found, or no connection was made.
func unsent(err error) bool {
	text := err.Error()
	var dial *net.OpError
	return strings.Contains(text, selection) || strings.Contains(text, "connection pool") ||
		strings.Contains(text, "connection handshake") || strings.Contains(text, "not sent to server") || errors.As(err, &dial) && dial.Op == "dial" ||
		errors.Is(err, mongo.ErrClientDisconnected)
}

// plain returns the text of an error without the addresses and the state of all servers, in one
// line of bounded length. The driver's errors contain no password.
func plain(err error) string {
	text, _, _ := strings.Cut(err.Error(), ", current topology")
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > 300 {
		text = strings.ToValidUTF8(text[:300], "") + "…"
	}
	return text
}
