package server

import (
	"os"
	"testing"
)

// Thorough marks a test of the second tier: one that takes three seconds or more on a quiet
// machine. It skips the test unless the environment has PADLOCK_TESTS=thorough, which `make
// thorough` and `make nightly` set. CONTRIBUTING.md says which tier shows what.
func Thorough(t testing.TB) {
	t.Helper()
	if !IsThorough() {
		t.Skip("a test of the second tier, which `make thorough` runs")
	}
}

// IsThorough reports whether the tests of the second tier run, too.
func IsThorough() bool { return os.Getenv("PADLOCK_TESTS") == "thorough" }
