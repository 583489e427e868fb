package soak

import (
	"fmt"
	"os"
	"runtime"
	"time"
)

// Inventory is the number of descriptors and goroutines of a process.
type Inventory struct {
	Descriptors int // 0 if the system does not report it
	Goroutines  int
}

// Count counts the descriptors and goroutines of this process.
func Count() Inventory {
	time.AfterFunc(time.Hour, func() {}).Stop() // the first timer opens descriptors that stay open
	names, _ := os.ReadDir("/proc/self/fd")     // empty without /proc
	return Inventory{Descriptors: len(names), Goroutines: runtime.NumGoroutine()}
}

// Beyond describes by how much n exceeds an earlier count. It compares the descriptors first and
// then the goroutines. It returns "" if n does not exceed that count.
func (n Inventory) Beyond(before Inventory) string {
	switch {
	case n.Descriptors > before.Descriptors:
		return fmt.Sprintf("%d descriptors are open, %d were before", n.Descriptors, before.Descriptors)
	case n.Goroutines > before.Goroutines:
		return fmt.Sprintf("%d goroutines run, %d did before", n.Goroutines, before.Goroutines)
	}
	return ""
}

// backgroundClose is how long a client of a server may close a connection in the background, after the
// store was closed: pgx waits for 15 s for the end of one that does not answer (pgconn, asyncClose).
const backgroundClose = 16 * time.Second

// Settle counts again and again until the count does not exceed n, for at most backgroundClose. It
// returns the last count.
func (n Inventory) Settle() Inventory {
	for end := time.Now().Add(backgroundClose); ; time.Sleep(20 * time.Millisecond) {
		if now := Count(); now.Beyond(n) == "" || time.Now().After(end) {
			return now
		}
	}
}
