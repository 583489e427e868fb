package stampede

import (
	"testing"

	"github.com/padlock-go/padlock/driver"
)

// The code of this package does not import driver, so it has a copy of this limit.
func TestMaxLockName(t *testing.T) {
	if maxLockName != driver.MaxName {
		t.Errorf("maxLockName is %d, driver.MaxName is %d", maxLockName, driver.MaxName)
	}
}
