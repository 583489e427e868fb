//go:build linux

package trial

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
)

// childVariable is the environment variable that makes a program one process of a trial. Its value
// is an order, as JSON.
const childVariable = "PADLOCK_BENCH_CHILD"

// NewChild returns the command that runs this program again, as a process of a trial. PlayChild
// gives the process its order.
func NewChild(order any) (*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(order)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self)
	// Without this, a process that was built with -race would sleep for a second before it ends.
	cmd.Env = append(os.Environ(), childVariable+"="+string(text), "GORACE=atexit_sleep_ms=0 "+os.Getenv("GORACE"))
	cmd.Stderr = os.Stderr
	return cmd, nil
}

// PlayChild is called at the start of a program. In a process of a trial, it calls obey with the
// order and ends the process. Otherwise it returns at once.
func PlayChild[Order any](obey func(o Order) error) {
	text := os.Getenv(childVariable)
	if text == "" {
		return
	}
	var o Order
	err := json.Unmarshal([]byte(text), &o)
	if err == nil {
		err = obey(o)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "a process of the trial:", err)
		os.Exit(1)
	}
	os.Exit(0)
}
