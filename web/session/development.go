package session

import "context"

// handOut remembers a value that the handler got. It is for the option Development, which finds
// values that the handler changes in place.
func (s *state) handOut(key string, v any) {
	if raw, err := s.m.cfg.codec.Marshal(v); err == nil {
		s.handed = append(s.handed, handedOut{key, v, string(raw)})
	}
}

// reportInPlace reports values that the handler changed in place without calling Put.
func (s *state) reportInPlace(ctx context.Context) {
	reported := make(map[string]bool)
	for _, h := range s.handed {
		raw, err := s.m.cfg.codec.Marshal(h.value)
		if err != nil || string(raw) == h.was || s.pending.Has(h.key) || reported[h.key] {
			continue
		}
		reported[h.key] = true
		s.event(ctx, Event{Kind: EventInPlace, Key: h.key})
	}
	s.handed = nil
}
