package mongostore

import (
	"math"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/padlock-go/padlock/driver"
)

// A planned length is stored in milliseconds, rounded up. The longest one stays the longest.
func TestPlan(t *testing.T) {
	for plan, want := range map[time.Duration]time.Duration{
		1:                       time.Millisecond,
		time.Hour:               time.Hour,
		math.MaxInt64:           math.MaxInt64,
		1500 * time.Microsecond: 2 * time.Millisecond,
	} {
		raw, err := bson.Marshal(holderFields(&driver.Holder{Plan: plan}))
		if err != nil {
			t.Fatal(err)
		}
		var h holder
		if err := bson.Unmarshal(raw, &h); err != nil {
			t.Fatal(err)
		}
		if got := h.public().Plan; got != want {
			t.Errorf("the plan %d became %d, want %d", plan, got, want)
		}
	}
}
