package storeurl

import (
	"fmt"

	"github.com/padlock-go/padlock/driver"
)

// Invalid returns an error that is driver.ErrInvalid.
func Invalid(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{driver.ErrInvalid}, args...)...)
}
