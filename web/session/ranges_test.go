package session_test

import (
	"testing"

	"github.com/padlock-go/padlock/web/session"
	"github.com/padlock-go/padlock/web/session/sessionstore"
)

// The comments of the options say these ranges. New returns an error for each of these values.
func TestRangesOfOptions(t *testing.T) {
	for name, opts := range map[string][]session.Option{
		"IdleTimeout": {session.IdleTimeout(-1)}, "Lifetime": {session.Lifetime(-1)}, "no end": {session.IdleTimeout(0), session.Lifetime(0)},
		"MaxWait": {session.MaxWait(-1)}, "MaxSize": {session.MaxSize(0)}, "RetryConflicts": {session.RetryConflicts(-1)},
		"Locker": {session.Locker(nil)}, "ValueCodec": {session.ValueCodec(nil)}, "OnEvent": {session.OnEvent(nil)},
		"Exclusive without a Locker": {session.Exclusive}, "nil": {nil},
	} {
		if _, err := session.New(sessionstore.NewMemory(), opts...); err == nil {
			t.Errorf("%s: New works", name)
		}
	}
	m, err := session.New(sessionstore.NewMemory(), session.IdleTimeout(0), session.MaxWait(0), session.MaxSize(1), session.RetryConflicts(0),
		session.Logger(nil), session.OnError(nil))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if recover() == nil {
			t.Error("With(MaxWait(-1)) does not panic")
		}
	}()
	m.With(session.MaxWait(-1))
}
