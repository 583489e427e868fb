package server

import (
	"fmt"
	"runtime"
	"testing"
)

// fakeTB is a test inside a test. It notes how the test ended.
type fakeTB struct {
	testing.TB
	failed, skipped bool
	said            string
	cleanups        []func()
}

// inside runs f as a test of its own, and then runs the clean-ups of that test.
func inside(t *testing.T, f func(testing.TB)) *fakeTB {
	fake := &fakeTB{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			for i := len(fake.cleanups) - 1; i >= 0; i-- {
				fake.cleanups[i]()
			}
		}()
		f(fake)
	}()
	<-done
	return fake
}

func (f *fakeTB) Cleanup(c func()) { f.cleanups = append(f.cleanups, c) }
func (f *fakeTB) Failed() bool     { return f.failed }

func (f *fakeTB) Fatal(args ...any) {
	f.failed = true
	f.said += fmt.Sprintln(args...)
	runtime.Goexit()
}

func (f *fakeTB) Fatalf(format string, args ...any) { f.Fatal(fmt.Sprintf(format, args...)) }

func (f *fakeTB) Errorf(format string, args ...any) {
	f.failed = true
	f.Logf(format, args...)
}

func (f *fakeTB) Logf(format string, args ...any) { f.said += fmt.Sprintf(format+"\n", args...) }

func (f *fakeTB) Skip(args ...any) {
	f.skipped = true
	f.said += fmt.Sprintln(args...)
	runtime.Goexit()
}
