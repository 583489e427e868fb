package memstore

import (
	"testing"

	"github.com/padlock-go/padlock/driver"
)

// BenchmarkHold measures one name that is taken, renewed and given back by one caller.
func BenchmarkHold(b *testing.B) {
	s, ctx := New(), b.Context()
	r := request("n", "token")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Acquire(ctx, r); err != nil {
			b.Fatal(err)
		}
		if _, err := s.Extend(ctx, r.Name, r.Token.Text(), r.TTL); err != nil {
			b.Fatal(err)
		}
		if out, err := s.Release(ctx, r.Name, r.Token.Text(), 0); out != driver.OutcomeReleased {
			b.Fatal(out, err)
		}
	}
}
