package filestore

import (
	"context"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
)

// BenchmarkAcquireRelease takes and gives back a name that no other caller wants. A
// comparison with gofrs/flock is in internal/integration.
func BenchmarkAcquireRelease(b *testing.B) {
	for _, mode := range []struct {
		name   string
		shared bool
		kept   int
	}{{"exclusive", false, maxOpen}, {"opened each time", false, 0}, {"shared", true, maxOpen}} {
		b.Run(mode.name, func(b *testing.B) {
			s, err := Open(b.TempDir(), func(c *config) { c.maxOpen = mode.kept })
			if err != nil {
				b.Fatal(err)
			}
			defer s.Close()
			ctx := context.Background()
			r := driver.Request{
				Name: "nightly-report", Token: driver.TokenOf("token"), TTL: time.Minute, Shared: mode.shared,
				Holder: driver.Holder{Host: "host.example.com", PID: 4711, Label: "report"},
			}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := s.Acquire(ctx, r); err != nil {
					b.Fatal(err)
				}
				if o, err := s.Release(ctx, r.Name, r.Token.Text(), 0); o != driver.OutcomeReleased || err != nil {
					b.Fatal(o, err)
				}
			}
		})
	}
}
