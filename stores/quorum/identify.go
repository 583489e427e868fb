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

// Location implements driver.Places: each name has a lock of its own.
func (s *Store) Location(name string) (string, error) {
	return name, driver.CheckName(name, &s.guarantees)
}

// SamePlace implements driver.Places. The store cannot tell: two quorums may share some members.
func (s *Store) SamePlace(driver.Store) bool { return false }

// StoreID implements driver.Places for the rule All. The id is made from the members' ids;
// their order does not matter. Each member is asked for its id until it answers, and then not again
// while this Store is open.
//
// StoreID returns driver.ErrUnavailable while the id of a member is not known, and
// errors.ErrUnsupported if a member has no id.
//
// Under the rule Majority, StoreID always returns errors.ErrUnsupported. If a member loses its
// data, it gets a new id, so an id made from all members would change. The key of an exported lock
// contains the id of the store. Such a key would be refused although a majority of the members
// still has the hold.
func (s *Store) StoreID(ctx context.Context) (string, error) {
	if s.cannot(driver.AbilityStoreID) {
		return "", fmt.Errorf("an id of the store: %w", errors.ErrUnsupported)
	}
	if err := s.calls.Begin(ctx); err != nil {
		return "", err
	}
	defer s.calls.Work.Done()
	r := s.newRound(ctx, nil, maxPatience, len(s.members))
	defer r.endRound()
	answers := r.askEveryMember(func(ctx context.Context, _ int, m *member, report func(answer)) {
		err := m.identify(ctx)
		report(answer{verdict: judge(err), err: err})
	})
	if err := r.collect(ctx, answers, r.timeout+grace, func() bool { return false }); err != nil {
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

// identify asks the member for its id, unless the id is known.
func (m *member) identify(ctx context.Context) error {
	if m.id.Load() != nil {
		return nil
	}
	id, err := m.locations.StoreID(ctx)
	if err == nil {
		m.id.Store(&id)
	}
	return err
}

// id returns the id of the quorum, or "" while the id of a member is not known.
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
