package fast_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/driver/fast"
	"github.com/padlock-go/padlock/stores/memstore"
)

// Three callers want one of two permits. Each makes one call, whatever the number of permits.
func ExampleSlotTaker() {
	taker, ok := driver.As[fast.SlotTaker](memstore.New())
	if !ok {
		fmt.Println("the callers have to try one permit after the other")
		return
	}
	for _, token := range []string{"a", "b", "c"} {
		r := driver.Request{Name: "reports", Token: driver.TokenOf(token), TTL: time.Minute}
		slot, _, err := taker.AcquireSlot(context.Background(), r, 2, false)
		fmt.Println(slot, errors.Is(err, driver.ErrHeld))
	}
	// Output:
	// 0 false
	// 1 false
	// 0 true
}
