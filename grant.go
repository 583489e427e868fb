package padlock

import (
	"context"
	"fmt"
)

// Grant tells the work under a lock which lock that is. It has what sqlstore's CheckTx and the guards
// of package fence ask for. GrantFrom returns it. The zero Grant is of no lock. A Grant is safe for
// concurrent use.
type Grant struct{ hold *hold }

// GrantFrom returns the grant of the lock in ctx, for the function of Do, of an election, or a handler
// under a lock. It finds the lock that FenceFrom finds. So a transaction needs one line:
//
//	err := store.CheckTx(ctx, tx, padlock.GrantFrom(ctx))
//
// If there is no lock in ctx, or if the lock is over, Err returns why, and CheckTx refuses the Grant.
// A Grant that is kept is refused when the function has ended.
func GrantFrom(ctx context.Context) Grant { return Grant{lockFrom(ctx)} }

// GrantsFrom returns the grants of all locks in ctx, for the function of DoAll. A lock is in ctx if
// ctx is the lock's context, comes from its Join, or was made from one of these. The keys of the
// map are the names of the locks. If two locks have the same name, the map has the inner one.
func GrantsFrom(ctx context.Context) map[string]Grant {
	grants := make(map[string]Grant)
	locksIn(ctx, lockFrom(ctx), func(h *hold) bool {
		if name := withoutSlot(h.name); grants[name].hold == nil {
			grants[name] = Grant{h}
		}
		return false
	})
	return grants
}

// Name returns the name of the lock, or "" if there is no lock.
func (g Grant) Name() string {
	if g.hold == nil {
		return ""
	}
	return withoutSlot(g.hold.name)
}

// Slot returns the permit, as Lock.Slot does.
func (g Grant) Slot() int {
	if g.hold == nil {
		return -1
	}
	return slotOf(g.hold.name)
}

// Fence returns the fence of the lock, or 0 if the store has no fences or there is no lock. A lock that
// is over keeps its fence, so that a guard refuses a late write by it.
func (g Grant) Fence() uint64 {
	if g.hold == nil {
		return 0
	}
	return g.hold.fencing()
}

// Err returns nil if the lock is held, as far as this process knows. Otherwise it returns the reason
// why it is over, as context.Cause of Lock.Context does, or ErrInvalid if there is no lock. It sends
// no request.
func (g Grant) Err() error {
	if g.hold == nil {
		return errNoGrant
	}
	if err := g.hold.endCause(); err != nil {
		return failed(OpHold, g.hold.name, err)
	}
	return nil
}

var errNoGrant = fmt.Errorf("%w: the context is of no lock", ErrInvalid)
