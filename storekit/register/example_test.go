package register_test

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/storekit/register"
)

// drawer is a service that keeps small values and counts their versions.
type drawer struct {
	mu       sync.Mutex
	values   map[string][]byte
	versions map[string]int
}

func (d *drawer) Get(_ context.Context, name string) (register.Value, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	v := register.Value{Now: time.Now()}
	if n := d.versions[name]; n > 0 {
		v.Data, v.Version = d.values[name], strconv.Itoa(n)
	}
	return v, nil
}

func (d *drawer) Put(_ context.Context, name string, data []byte, version string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if n := d.versions[name]; n > 0 && strconv.Itoa(n) != version || n == 0 && version != "" {
		return register.ErrChanged
	}
	d.values[name] = data
	d.versions[name]++
	return nil
}

func (d *drawer) Close() error { return nil }

// Two methods are a register, and a register is a store.
func Example() {
	service := &drawer{values: map[string][]byte{}, versions: map[string]int{}}
	locker := padlock.New(register.New(service, register.Options{Name: "drawer"}))
	defer locker.Close(context.Background())

	err := locker.Do(context.Background(), "report", func(context.Context) error {
		_, err := locker.TryAcquire(context.Background(), "report")
		fmt.Println("held by another:", err != nil)
		return nil
	})
	fmt.Println(err)
	// Output:
	// held by another: true
	// <nil>
}
