//go:build linux

package main

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"time"
)

// tick is the unit of processor time in /proc. It is the same on all processors that Go supports.
const tick = time.Second / 100

// family lists a process and its descendants.
func family(root int) []int {
	pids := []int{root}
	for i := 0; i < len(pids); i++ {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", pids[i]))
		if err != nil {
			continue // the process has ended
		}
		for _, field := range bytes.Fields(text) {
			if pid, err := strconv.Atoi(string(field)); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// processorTime returns the processor time of the processes. It includes their child processes that
// have ended and were waited for.
func processorTime(pids []int) time.Duration {
	const utime, cstime = 11, 14 // indexes in /proc/PID/stat after the name; stime and cutime are between
	sum := 0
	for _, pid := range pids {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
		if err != nil || len(fields) <= cstime {
			continue // the process has ended
		}
		for _, field := range fields[utime : cstime+1] {
			n, _ := strconv.Atoi(string(field)) // the kernel writes numbers
			sum += n
		}
	}
	return time.Duration(sum) * tick
}

// residentMemory returns how many bytes of memory the processes use. A page that several of them
// share is counted once.
func residentMemory(pids []int) (size float64) {
	for _, pid := range pids {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
		if err != nil {
			continue // the process has ended
		}
		for line := range bytes.Lines(text) {
			fields := bytes.Fields(line)
			if len(fields) > 1 && string(fields[0]) == "Pss:" {
				n, _ := strconv.ParseFloat(string(fields[1]), 64)
				size += n * 1024
			}
		}
	}
	return size
}
