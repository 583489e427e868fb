package storekit

import (
	"testing"
	"time"
)

func TestRoundTrips(t *testing.T) {
	var trips RoundTrips
	for i, row := range []struct{ took, want time.Duration }{{5, 0}, {3, 3}, {9, 3}, {8, 8}} {
		if trips.Note(row.took); trips.Shorter() != row.want {
			t.Errorf("after %d requests: %v, want %v", i+1, trips.Shorter(), row.want)
		}
	}
}
