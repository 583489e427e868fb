package main

import (
	"bytes"
	"fmt"
	"os"
)

// alive leaves out who is dead and not yet waited for: nobody may be there
// who does that.
func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, state, ok := bytes.Cut(stat[bytes.LastIndexByte(stat, ')')+1:], []byte(" "))
	return err == nil && ok && state[0] != 'Z' && state[0] != 'X'
}

// parentOf is 0 if that cannot be told.
func parentOf(pid int) (parent int) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err == nil {
		_, _ = fmt.Sscanf(string(stat[bytes.LastIndexByte(stat, ')')+1:]), " %c %d", new(rune), &parent)
	}
	return parent
}
