package mutants

import "math/rand/v2"

// begin makes the Begin of a fault that is over at once.
func begin(f func()) func(*rand.Rand, int) (func() error, error) {
	return func(*rand.Rand, int) (func() error, error) {
		f()
		return nil, nil
	}
}
