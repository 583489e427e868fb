package etcdstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/padlock-go/padlock/driver"
)

func unavailable(format string, args ...any) error {
	return fmt.Errorf("%w: etcd: "+format, append([]any{driver.ErrUnavailable}, args...)...)
}

// A refused is the error for a request that the server refused. isRefusal still recognises the
// server's own error.
type refused struct {
	err    error
	advice string
	late   bool // the server may send it after it has carried out the request
}

func (r *refused) Error() string { return unavailable("%s", r.advice).Error() }

func (r *refused) Unwrap() []error { return []error{driver.ErrUnavailable, r.err} }

const noSpace = "the server is out of space (alarm NOSPACE); compact and defragment it or raise its quota, then run 'etcdctl alarm disarm'"

// refusals lists errors of the server, each with advice. Each error proves that the server changed
// nothing, unless it may come late: etcd checks its quota before a request is proposed and when it
// is applied, and the second time it carries the request out before it answers "no space".
var refusals = []refused{
	{late: true, err: rpctypes.ErrNoSpace, advice: noSpace},
	{err: rpctypes.ErrCorrupt, advice: "the server has the alarm CORRUPT; restore the damaged member"},
	{err: rpctypes.ErrTooManyRequests, advice: "the server has too many requests waiting to be applied"},
	{err: rpctypes.ErrAuthFailed, advice: "the server does not accept the user or the password"},
	{err: rpctypes.ErrInvalidAuthToken, advice: "the server does not know the login any more; the next call logs in anew"},
	{err: rpctypes.ErrUserEmpty, advice: "the server wants a user and a password; write etcd://USER:PASSWORD@HOST"},
	{err: rpctypes.ErrPermissionDenied, advice: "the user has no right to read and write the keys of the prefix; see docs/stores/etcd.md"},
	{err: rpctypes.ErrAuthOldRevision, advice: "users or roles were changed just now; try again"},
	{err: rpctypes.ErrNoLeader, advice: "the cluster has no leader; more than half of its members must be running and see each other"},
	{err: rpctypes.ErrNotCapable, advice: "the server is too old"},
	{err: rpctypes.ErrTooManyOps, advice: "the server allows fewer than 128 operations in a transaction; raise --max-txn-ops"},
	{err: rpctypes.ErrLeaseNotFound, advice: "the server does not have a lease that it made; was it restarted without its data?"},
	{err: rpctypes.ErrGRPCNotSupportedForLearner, advice: "this member is a learner; name a voting member"},
}

// failure translates the error of a request to an error of package driver. The argument wrote says
// whether the request could have changed something.
func failure(ctx context.Context, err error, wrote bool) error {
	if err == nil {
		return nil
	}
	if own := ownError(err); own != nil {
		return err
	}
	for i := range refusals {
		if r := &refusals[i]; isRefusal(err, r.err) {
			if wrote && r.late {
				return fmt.Errorf("%w; %w", r, driver.ErrUncertain)
			}
			return r
		}
	}
	if advice := unreached(err); advice != "" {
		return unavailable("%s", advice)
	}
	awaitDeadline(ctx, err)
	if cause := ctx.Err(); cause != nil && !errors.Is(context.Cause(ctx), errSilent) {
		if wrote {
			return fmt.Errorf("%w; %w", cause, driver.ErrUncertain)
		}
		return cause
	}
	text := "the server does not answer in time"
	if !isDeadline(err) {
		text = rpctypes.ErrorDesc(err)
	}
	if wrote {
		return fmt.Errorf("%w: etcd: %s", driver.ErrUncertain, text)
	}
	return unavailable("%s", text)
}

// changes reports whether operations of a transaction may change something.
func changes(ops []*pb.RequestOp) bool {
	return slices.ContainsFunc(ops, func(op *pb.RequestOp) bool { return op.GetRequestRange() == nil })
}

// awaitDeadline waits for the end of ctx if err says that the deadline of ctx has passed. The client,
// or the server, which knows the deadline, may end a request a moment before ctx ends.
func awaitDeadline(ctx context.Context, err error) {
	if deadline, ok := ctx.Deadline(); ok && isDeadline(err) && time.Until(deadline) < 50*time.Millisecond {
		<-ctx.Done()
	}
}

// errSilent is the cause of a context that was cancelled because the server is silent.
var errSilent = errors.New("the server is silent")

// ownError returns the error of package driver that err wraps, or nil.
func ownError(err error) error {
	for _, own := range []error{driver.ErrHeld, driver.ErrExpired, driver.ErrLost, driver.ErrUncertain,
		driver.ErrUnavailable, driver.ErrPromotionConflict, driver.ErrInvalid, driver.ErrClosed, errors.ErrUnsupported} {
		if errors.Is(err, own) {
			return own
		}
	}
	return nil
}

func isDeadline(err error) bool {
	code := status.Code(err)
	return code == codes.DeadlineExceeded || code == codes.Canceled || isRefusal(err, rpctypes.ErrTimeout) ||
		errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}

// unreached returns advice about a connection that could not be made, or "". If it returns advice,
// the request was not sent.
func unreached(err error) string {
	text := err.Error()
	if _, cause, ok := strings.Cut(text, "authentication handshake failed: "); ok {
		return "TLS failed: check etcds:, ca=FILE and the name in the certificate of the server: " + unquoted(cause)
	}
	if _, cause, ok := strings.Cut(text, "Error while dialing: "); ok {
		return "no member can be reached: " + unquoted(cause)
	}
	if strings.Contains(text, "error reading server preface") {
		return "what listens there does not speak etcd's protocol, or wants TLS; write etcds:// for TLS"
	}
	return ""
}

// unquoted returns the part of a gRPC message before the last quotation mark.
func unquoted(text string) string {
	if end := strings.LastIndexByte(text, '"'); end >= 0 {
		text = text[:end]
	}
	return strings.TrimSpace(text)
}

// isLeaseGone reports whether the server refused a request because the lease in the request does
// not exist. The server then changed nothing.
func isLeaseGone(err error) bool {
	return err != nil && isRefusal(err, rpctypes.ErrLeaseNotFound)
}

func isNoSpace(err error) bool { return err != nil && isRefusal(err, rpctypes.ErrNoSpace) }

// isOnItsWay reports whether the server may still carry out the request that failed with err. A
// server without space has answered, although the outcome is not known.
func isOnItsWay(err error) bool { return errors.Is(err, driver.ErrUncertain) && !isNoSpace(err) }

// isRefusal reports whether err is the error known of the server. The client may return the error
// itself or a gRPC error with the same text.
func isRefusal(err, known error) bool {
	return errors.Is(err, known) || rpctypes.ErrorDesc(err) == rpctypes.ErrorDesc(known)
}
