package session

import (
	"context"
	"fmt"

	"github.com/padlock-go/padlock/web/session/sessionstore"
)

// Get returns the decoded value of key, or the zero value if there is none. The result is a copy: a
// change in it is saved only by Put.
func Get[T any](s *Session, key string) (T, error) {
	v, _, err := Lookup[T](s, key)
	return v, err
}

// Lookup is like Get, and also reports whether there is a value.
func Lookup[T any](s *Session, key string) (v T, found bool, err error) {
	of, ctx := s.open()
	of.mu.Lock()
	defer of.mu.Unlock()
	if err := of.beginUse(ctx, false, ""); err != nil {
		return v, false, err
	}
	raw, found := of.readValue(key)
	if !found {
		return v, false, nil
	}
	if err := of.m.cfg.codec.Unmarshal(raw, &v); err != nil {
		var zero T
		return zero, true, fmt.Errorf("session: value of %q: %w", key, err)
	}
	if of.m.cfg.dev {
		of.handOut(key, v)
	}
	return v, true, nil
}

// GetOr is like Get, but returns def if there is no value, if the value cannot be decoded, or if
// the session cannot be loaded. In the last case the Manager also replaces the answer, as it does
// after Get.
func GetOr[T any](s *Session, key string, def T) T {
	if v, found, err := Lookup[T](s, key); found && err == nil {
		return v
	}
	return def
}

// Take removes a key in the store at once and returns its value. If several requests take a key at
// the same time, exactly one gets the value. If that request fails later, the value is gone.
func Take[T any](ctx context.Context, s *Session, key string) (v T, found bool, err error) {
	of, _ := s.open()
	of.mu.Lock()
	defer of.mu.Unlock()
	raw, err := of.applyNow(ctx, sessionstore.Op{Kind: sessionstore.OpTake, Key: key})
	if err != nil || raw == nil {
		return v, false, err
	}
	if err := of.m.cfg.codec.Unmarshal(raw, &v); err != nil {
		return v, true, fmt.Errorf("session: value of %q: %w", key, err)
	}
	return v, true, nil
}

// Has reports whether key has a value.
func (h *Session) Has(key string) (bool, error) {
	s, ctx := h.open()
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.beginUse(ctx, false, ""); err != nil {
		return false, err
	}
	_, found := s.readValue(key)
	return found, nil
}

// Put sets key to v. It encodes v immediately, so later changes of v are not saved. If the request
// has read the key before, and another request changes it before the commit, the commit fails with
// ErrConflict. If the request has not read it, the last write wins.
//
// If Put fails, the key stays as it was. Nothing that the request wrote is saved, and the Manager
// sends an error answer in place of the handler's answer, even if the handler ignores the error of
// Put. To prevent that, the handler calls IgnoreRefused or writes an error answer itself. The error
// is ErrTooLarge if the session would exceed MaxSize. A Put that makes the session smaller
// succeeds. The error is ErrRefused if the format of the stored session does not allow the change:
// in a session of PHP, a value that is bound by references.
func (h *Session) Put(key string, v any) error {
	s, ctx := h.open()
	raw, err := s.m.cfg.codec.Marshal(v)
	if err != nil {
		err = fmt.Errorf("session: value of %q: %w", key, err)
	}
	if raw == nil {
		raw = []byte{} // nil would be no value for Take
	}
	return s.write(ctx, sessionstore.Op{Kind: sessionstore.OpPut, Key: key, Value: raw}, err)
}

// Delete removes key when the session is saved. If there is no session, Delete does not make one.
func (h *Session) Delete(key string) error {
	s, ctx := h.open()
	return s.write(ctx, sessionstore.Op{Kind: sessionstore.OpDelete, Key: key}, nil)
}

// Clear removes all keys when the session is saved: those that the session had when the request
// loaded it, and those that the request has put. A key that another request adds meanwhile stays.
// The session itself goes on; Destroy ends it.
func (h *Session) Clear() error {
	s, ctx := h.open()
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.beginUse(ctx, true, ""); err != nil {
		return err
	}
	for _, key := range s.keys() {
		if err := s.plan(ctx, sessionstore.Op{Kind: sessionstore.OpDelete, Key: key}); err != nil {
			return err
		}
	}
	return nil
}

// Incr adds delta to the integer at key, or to 0 if there is none, and returns the sum. It changes
// the store at once, so no count is lost, even if the request fails later. If the value is not an
// integer, the error is ErrNotNumber. After any other error, the Manager sends an error answer in
// place of the handler's answer.
func (h *Session) Incr(ctx context.Context, key string, delta int64) (int64, error) {
	s, _ := h.open()
	s.mu.Lock()
	defer s.mu.Unlock()
	raw, err := s.applyNow(ctx, sessionstore.Op{Kind: sessionstore.OpIncr, Key: key, Delta: delta})
	if err != nil {
		return 0, err
	}
	var n int64
	err = s.m.cfg.codec.Unmarshal(raw, &n)
	return n, err
}

// Watch makes the commit depend on keys that this request reads and does not write: if one of them
// has changed, the commit fails with ErrConflict. It is not needed for keys that the request also
// writes, nor in the mode Exclusive. A request that writes nothing commits nothing, so it cannot
// conflict.
func (h *Session) Watch(keys ...string) error {
	s, ctx := h.open()
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.beginUse(ctx, false, ""); err != nil {
		return err
	}
	s.watch(keys)
	return nil
}

// Keys lists the keys. If the store keeps their order, they come in the order in which they were
// first set. After a call of Keys, every key counts as read. So if this request and another request
// both write the same key, the later commit fails with ErrConflict.
func (h *Session) Keys() ([]string, error) {
	s, ctx := h.open()
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.beginUse(ctx, false, ""); err != nil {
		return nil, err
	}
	return s.readAllKeys(), nil
}

// write adds op to the ops that wait for the commit, or refuses it. encodeErr is the error of
// encoding the value of op, if there was one.
func (s *state) write(ctx context.Context, op sessionstore.Op, encodeErr error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.beginUse(ctx, true, op.Key); err != nil {
		return err
	}
	if encodeErr != nil {
		return s.refuse(encodeErr)
	}
	if err := s.m.checkKey(op.Key); err != nil {
		return s.refuse(err)
	}
	return s.plan(ctx, op)
}

// plan adds op to the ops that wait for the commit, unless the session would become too large or
// its format refuses the op.
func (s *state) plan(ctx context.Context, op sessionstore.Op) error {
	was := s.sizeOf(op.Key)
	size, limit := s.size-was+len(op.Key)+len(op.Value), s.m.cfg.maxSize
	if op.Kind == sessionstore.OpPut && size > limit && size > s.size {
		return s.refuse(fmt.Errorf("%w: %q would make it %d bytes, at most %d are allowed", ErrTooLarge, op.Key, size, limit))
	}
	if s.try != nil {
		if err := s.try(op); err != nil {
			return s.refuse(err)
		}
	}
	s.planOp(op)
	s.wroteWith = ctx
	return nil
}

// putOwn puts a value of this package. The caller holds s.mu and has called beginUse.
func (s *state) putOwn(ctx context.Context, key string, v any) error {
	raw, err := s.m.cfg.codec.Marshal(v)
	if err != nil {
		return s.refuse(fmt.Errorf("session: value of %q: %w", key, err))
	}
	return s.plan(ctx, sessionstore.Op{Kind: sessionstore.OpPut, Key: key, Value: raw})
}
