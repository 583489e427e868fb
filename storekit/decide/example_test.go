package decide_test

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit/decide"
)

// A store reads the state, decides, and writes the state back if nobody else has written.
func Example() {
	var state decide.State
	now := decide.Now{At: 1_000_000, Wall: 1_000_000} // one second after the beginning of its clock

	hold, err := state.Acquire(&driver.Request{Name: "job", Token: driver.TokenOf("a"), TTL: 10 * time.Second}, now)
	fmt.Println(hold.Fence, hold.Until.Sub(now.At), err)

	_, err = state.Acquire(&driver.Request{Name: "job", Token: driver.TokenOf("b"), TTL: 10 * time.Second}, now)
	fmt.Println(err != nil)

	now.At, now.Wall = 12_000_000, 12_000_000 // the lease has ended
	hold, err = state.Acquire(&driver.Request{Name: "job", Token: driver.TokenOf("b"), TTL: 10 * time.Second}, now)
	fmt.Println(hold.Fence, err)

	_, err = state.Extend("a", time.Second, now)
	fmt.Println(err)

	data, _ := json.Marshal(state)
	fmt.Println(string(data))
	// Output:
	// 1000000 10s <nil>
	// true
	// 12000000 <nil>
	// lock is lost
	// {"fence":12000000,"holds":[{"token":"b","fence":12000000,"since":12000000,"until":22000000}],"taken":["a"]}
}
