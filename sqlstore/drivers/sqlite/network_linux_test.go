package sqlite

import "testing"

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
	if err := create("/proc/x"); err == nil || networkKind("/proc") != "stand-in" {
		t.Errorf("a file there: %v", err)
	}
}
