// Package calls has two functions of storekit under their former names, for the stores that do not
// import storekit yet.
package calls

import (
	"context"
	"time"

	"github.com/padlock-go/padlock/storekit"
)

// Sleep is storekit.Sleep.
func Sleep(ctx context.Context, d time.Duration) bool { return storekit.Sleep(ctx, d) }

// Regularly is storekit.Regularly.
func Regularly(ctx context.Context, every time.Duration, f func()) {
	storekit.Regularly(ctx, every, f)
}
