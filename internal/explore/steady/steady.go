// Package steady takes chance out of a Locker, so that equal runs of an explorer agree.
package steady

import (
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"time"
	"unsafe"

	"github.com/padlock-go/padlock"
)

// Pause is how long each random pause between two tries takes.
const Pause = 20 * time.Millisecond

// Fix makes l plan each renewal in the middle, and watch no Lock for being forgotten.
func Fix(l *padlock.Locker) {
	v := reflect.ValueOf(l).Elem()
	*Pointer[func() float64](Field(v, "renewer", "random")) = func() float64 { return 0.5 }
	*Pointer[float64](Field(v, "renewer", "offset")) = 0.5
	Field(v, "sample", "v").SetUint(5)
}

// Pointer returns a pointer to v, which Field has returned.
func Pointer[T any](v reflect.Value) *T { return (*T)(v.Addr().UnsafePointer()) }

// Field returns the field of v at the end of the path, so that it can be read and set.
func Field(v reflect.Value, path ...string) reflect.Value {
	for _, name := range path {
		for v.Kind() == reflect.Pointer {
			v = v.Elem()
		}
		v = v.FieldByIndex(placeOf(v.Type(), name))
		v = reflect.NewAt(v.Type(), unsafe.Pointer(v.UnsafeAddr())).Elem()
	}
	return v
}

// places has the index of each field that was read, because a search for its name takes long.
var places sync.Map

type place struct {
	t    reflect.Type
	name string
}

func placeOf(t reflect.Type, name string) []int {
	if i, ok := places.Load(place{t, name}); ok {
		return i.([]int)
	}
	f, ok := t.FieldByName(name)
	if !ok {
		panic(fmt.Sprintf("%v has no field %s", t, name))
	}
	places.Store(place{t, name}, f.Index)
	return f.Index
}

// Timer is for the AfterFunc of a Locker's clock, which calls it. It returns the name of the method of
// the Locker that sets the timer, and d, or Pause if d is random. If that method is sleep, it is the
// method that sleeps.
func Timer(d time.Duration) (setter string, fixed time.Duration) {
	var pcs [4]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs[:])])
	for more := true; more && (setter == "" || setter == "sleep"); {
		var f runtime.Frame
		f, more = frames.Next()
		setter = f.Function[strings.LastIndexByte(f.Function, '.')+1:]
		if strings.HasPrefix(setter, "func") { // a function inside of a method
			setter = f.Function[:strings.LastIndexByte(f.Function, '.')]
			setter = setter[strings.LastIndexByte(setter, '.')+1:]
		}
	}
	switch setter {
	case "waitAsHead", "askStore", "slowDown", "awaitPromotion":
		d = Pause
	}
	return setter, d
}
