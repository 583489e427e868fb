package sqlite

import (
	"errors"
	"testing"

	"github.com/padlock-go/padlock/driver"
)

func TestNetworkFileSystems(t *testing.T) {
	if kind := networkKind(t.TempDir()); kind != "" {
		t.Skipf("the temporary directory is on %s", kind)
	}
	if kind := networkKind("/proc"); kind != "" {
		t.Errorf("/proc is called a network file system, %s", kind)
	}
	const proc = 0x9fa0
	networkKinds[proc] = "stand-in"
	defer delete(networkKinds, proc)
	if err := create("/proc/x"); !errors.Is(err, driver.ErrInvalid) {
		t.Errorf("a file there: %v", err)
	}
}
