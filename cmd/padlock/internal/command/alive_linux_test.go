package command

import (
	"bytes"
	"fmt"
	"os"
)

// alive does not count zombies, because there may be no process that reaps them.
func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, state, ok := bytes.Cut(stat[bytes.LastIndexByte(stat, ')')+1:], []byte(" "))
	return err == nil && ok && state[0] != 'Z' && state[0] != 'X'
}

// parentOf returns 0 if the parent is not known.
func parentOf(pid int) (parent int) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err == nil {
		_, _ = fmt.Sscanf(string(stat[bytes.LastIndexByte(stat, ')')+1:]), " %c %d", new(rune), &parent)
	}
	return parent
}
