package quorum

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/padlock-go/padlock/driver"
)

// StoreID implements driver.Identifier. The id is made of the rule and of the members' ids, in any
// order. Each member's id is asked for until it is known, and not again while this Store is open.
//
// ErrUnavailable: the id of some member is not known yet. ErrUnsupported: a member has none.
func (s *Store) StoreID(ctx context.Context) (string, error) {
	if s.counted(func(m *member) bool { return m.ids != nil }) < len(s.members) {
		return "", fmt.Errorf("an id of the store: %w", errors.ErrUnsupported)
	}
	if err := s.enter(ctx); err != nil {
		return "", err
	}
	defer s.work.Done()
	if id := s.id(); id != "" {
		return id, nil
	}
	r := s.newRound(ctx, nil, maxPatience, len(s.members))
	defer r.done()
	answers := r.everybody(func(ctx context.Context, _ int, m *member, report func(answer)) {
		err := m.identify(ctx)
		report(answer{verdict: judge(err), err: err})
	})
	if err := r.collect(ctx, answers, r.patience+grace, func() bool { return false }); err != nil {
		return "", err
	}
	if id := s.id(); id != "" {
		return id, nil
	}
	if err := refusal(answers); err != nil {
		return "", err
	}
	return "", s.fail(driver.ErrUnavailable, answers, nil)
}

// identify makes the member's id known.
func (m *member) identify(ctx context.Context) error {
	if m.id.Load() != nil {
		return nil
	}
	id, err := m.ids.StoreID(ctx)
	if err == nil {
		m.id.Store(&id)
	}
	return err
}

// id returns the id, or "" while that of a member is not known.
func (s *Store) id() string {
	ids := []string{s.rule.String()}
	for _, m := range s.members {
		id := m.id.Load()
		if id == nil {
			return ""
		}
		ids = append(ids, *id)
	}
	slices.Sort(ids[1:])
	sum := sha256.Sum256([]byte(strings.Join(ids, " ")))
	return "q-" + base64.RawURLEncoding.EncodeToString(sum[:16])
}
