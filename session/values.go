package session

import (
	"bytes"
	"fmt"
	"iter"
	"slices"
)

// Get returns the value of key, decoded, and the zero value if there is none.
// It is a copy: to save what was changed in it, Put it.
func Get[T any](s *Session, key string) (T, error) {
	v, _, err := Lookup[T](s, key)
	return v, err
}

// Lookup is Get that also says whether there is a value.
func Lookup[T any](s *Session, key string) (v T, found bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.use(false); err != nil {
		return v, false, err
	}
	raw, found := s.see(key)
	if !found {
		return v, false, nil
	}
	if err := s.m.cfg.codec.Unmarshal(raw, &v); err != nil {
		var zero T
		return zero, true, fmt.Errorf("session: value of %q: %w", key, err)
	}
	if s.m.cfg.dev {
		s.handOut(key, v)
	}
	return v, true, nil
}

// Take removes a key and returns what it was, at once and in the store: of
// several requests exactly one gets it. If that request then fails, nobody
// has it.
func Take[T any](s *Session, key string) (v T, found bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	raw, err := s.now(Op{Kind: OpTake, Key: key})
	if err != nil || raw == nil {
		return v, false, err
	}
	if err := s.m.cfg.codec.Unmarshal(raw, &v); err != nil {
		return v, true, fmt.Errorf("session: value of %q: %w", key, err)
	}
	return v, true, nil
}

// flashPrefix keeps messages apart from other keys.
const flashPrefix = "flash:"

// Flash leaves a message for a later request, which gets it with TakeFlash. A
// second one under the same key replaces it.
func (s *Session) Flash(key string, message any) error { return s.Put(flashPrefix+key, message) }

// TakeFlash returns a message once: see Take.
func TakeFlash[T any](s *Session, key string) (message T, found bool, err error) {
	return Take[T](s, flashPrefix+key)
}

// Has tells whether key has a value.
func (s *Session) Has(key string) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.use(false); err != nil {
		return false, err
	}
	_, found := s.see(key)
	return found, nil
}

// Put sets key to v, encoded now: what is done to v later is not saved. If the
// request has read the key before, the commit fails with ErrConflict when
// somebody else changed it meanwhile; otherwise the last one wins.
func (s *Session) Put(key string, v any) error {
	raw, err := s.m.cfg.codec.Marshal(v)
	if err != nil {
		return fmt.Errorf("session: value of %q: %w", key, err)
	}
	return s.write(Op{Kind: OpPut, Key: key, Value: raw})
}

// Delete removes key, as Put sets it.
func (s *Session) Delete(key string) error { return s.write(Op{Kind: OpDelete, Key: key}) }

// Incr adds delta to the integer at key, 0 if there is none, and returns the
// sum. It is done at once and in the store, so that no count is lost, whatever
// becomes of the request. ErrNotNumber if the value is no integer.
func (s *Session) Incr(key string, delta int64) (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	raw, err := s.now(Op{Kind: OpIncr, Key: key, Delta: delta})
	if err != nil {
		return 0, err
	}
	var n int64
	err = s.m.cfg.codec.Unmarshal(raw, &n)
	return n, err
}

// Watch makes the commit depend on keys that this request read and does not
// write: if one of them changes before the commit, that fails with
// ErrConflict. It is not needed for keys that are read and written, nor in
// Exclusive. A request that writes nothing depends on nothing.
func (s *Session) Watch(keys ...string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.use(false); err != nil {
		return err
	}
	if s.watched == nil {
		s.watched = make(map[string]bool)
	}
	for _, k := range keys {
		s.watched[k] = true
	}
	return nil
}

// Keys lists the keys, in the order in which they were first set where the
// store keeps it. It reads them all: any key that this request then writes
// must be what it was.
func (s *Session) Keys() ([]string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.use(false); err != nil {
		return nil, err
	}
	s.readAll = true
	var keys []string
	for _, k := range s.order {
		if s.pending.get(k) == nil {
			keys = append(keys, k)
		} else if _, ok := s.view(k); ok {
			keys = append(keys, k)
		}
	}
	for _, op := range s.pending.ops {
		if _, ok := s.values[op.Key]; !ok && op.Kind == OpPut {
			keys = append(keys, op.Key)
		}
	}
	return keys, nil
}

// A Value is an encoded value of a session.
type Value struct {
	raw   []byte
	codec Codec
}

// Decode decodes it into what v points to.
func (v Value) Decode(to any) error { return v.codec.Unmarshal(v.raw, to) }

// Bytes is the value as it is stored.
func (v Value) Bytes() []byte { return bytes.Clone(v.raw) }

// All lists keys and values as they are now. It reads them all, as Keys does.
func (s *Session) All() (iter.Seq2[string, Value], error) {
	keys, err := s.Keys()
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	values := make([]Value, len(keys))
	for i, k := range keys {
		raw, _ := s.view(k)
		values[i] = Value{raw, s.m.cfg.codec}
	}
	return func(yield func(string, Value) bool) {
		for i, k := range keys {
			if !yield(k, values[i]) {
				return
			}
		}
	}, nil
}

// view is what the request sees at key.
func (s *Session) view(key string) ([]byte, bool) {
	if op := s.pending.get(key); op != nil {
		return op.Value, op.Kind == OpPut
	}
	v, ok := s.values[key]
	return v, ok
}

// see is view that counts as having read the key, unless this request wrote it
// itself.
func (s *Session) see(key string) ([]byte, bool) {
	if s.pending.get(key) == nil {
		if s.read == nil {
			s.read = make(map[string]bool)
		}
		s.read[key] = true
	}
	return s.view(key)
}

// write notes an op for the commit.
func (s *Session) write(op Op) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.m.checkKey(op.Key); err != nil {
		return err
	}
	if err := s.use(true); err != nil {
		return err
	}
	was := s.sizeOf(op.Key)
	if size := s.size - was + len(op.Key) + len(op.Value); op.Kind == OpPut && size > s.m.cfg.maxSize {
		return fmt.Errorf("%w: %q would make it %d bytes, at most %d are allowed", ErrTooLarge, op.Key, size, s.m.cfg.maxSize)
	}
	s.pending.set(op)
	s.resize(op.Key, was)
	return nil
}

// pendingOps are Puts and Deletes that wait for the commit, at most one for a
// key, in the order in which the keys were first written.
type pendingOps struct {
	ops   []Op
	index map[string]int
}

func (p *pendingOps) get(key string) *Op {
	if i, ok := p.index[key]; ok {
		return &p.ops[i]
	}
	return nil
}

func (p *pendingOps) set(op Op) {
	if old := p.get(op.Key); old != nil {
		*old = op
		return
	}
	if p.index == nil {
		p.index = make(map[string]int)
	}
	p.index[op.Key] = len(p.ops)
	p.ops = append(p.ops, op)
}

// remove forgets ops that are done.
func (p *pendingOps) remove(done []Op) {
	left := pendingOps{}
	for _, op := range p.ops {
		if !slices.ContainsFunc(done, func(d Op) bool { return d.Key == op.Key }) {
			left.set(op)
		}
	}
	*p = left
}

func (m *Manager) checkKey(key string) error {
	if key == "" || len(key) > MaxKey {
		return fmt.Errorf("%w: it has %d bytes, 1 to %d are allowed", ErrKey, len(key), MaxKey)
	}
	if m.cfg.checkKey != nil {
		return m.cfg.checkKey(key)
	}
	return nil
}

// handOut remembers a value for Development.
func (s *Session) handOut(key string, v any) {
	if raw, err := s.m.cfg.codec.Marshal(v); err == nil {
		s.handed = append(s.handed, handedOut{key, v, string(raw)})
	}
}

// reportInPlace reports values that changed in the handler's hands and were
// not put.
func (s *Session) reportInPlace() {
	var told []string
	for _, h := range s.handed {
		raw, err := s.m.cfg.codec.Marshal(h.value)
		if err != nil || string(raw) == h.was || s.pending.get(h.key) != nil || slices.Contains(told, h.key) {
			continue
		}
		told = append(told, h.key)
		s.m.event(Event{Kind: EventInPlace, Key: h.key})
	}
	s.handed = nil
}
