package quorum_test

import (
	"fmt"
	"testing"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/stores/memstore"
	"github.com/padlock-go/padlock/stores/quorum"
)

// BenchmarkAcquireRelease takes a free name and gives it back.
func BenchmarkAcquireRelease(b *testing.B) {
	for _, shape := range []struct {
		rule    quorum.Rule
		members int
		fences  bool
	}{{quorum.Majority, 3, true}, {quorum.Majority, 5, true}, {quorum.Majority, 3, false}, {quorum.All, 2, true}} {
		b.Run(fmt.Sprintf("%v=%d/fences=%v", shape.rule, shape.members, shape.fences), func(b *testing.B) {
			var stores []driver.Store
			for range shape.members {
				stores = append(stores, memstore.New())
			}
			var opts []quorum.Option
			if !shape.fences {
				opts = append(opts, quorum.NoFences())
			}
			s, err := quorum.New(shape.rule, stores, opts...)
			if err != nil {
				b.Fatal(err)
			}
			defer s.Close()
			r := request("n")
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				r.Token = driver.TokenOf(fmt.Sprint(i))
				if _, err := s.Acquire(b.Context(), r); err != nil {
					b.Fatal(err)
				}
				if out, err := s.Release(b.Context(), r.Name, r.Token.Text(), 0); err != nil || out != driver.OutcomeReleased {
					b.Fatal(out, err)
				}
			}
		})
	}
}
