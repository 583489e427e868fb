package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// BenchmarkStart measures how long a command under a lock takes that does nothing: with flock(1),
// and with padlock as a release builds it. It also reports the processor time of all processes
// and, for a run, the memory of padlock's two processes.
func BenchmarkStart(b *testing.B) {
	dir := b.TempDir()
	padlock := filepath.Join(dir, "padlock")
	build := exec.Command("go", "build", "-trimpath", "-tags", "grpcnotrace", "-gcflags=all=-l", "-gcflags=std=", "-gcflags=modernc.org/...=", "-ldflags", "-s -w -funcalign=16", "-o", padlock, ".") // as .ci/build-flags
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		b.Fatalf("%v: %s", err, out)
	}
	b.Setenv("PADLOCK_STORE", "file://"+dir+"/locks")
	file := filepath.Join(dir, "file")
	for _, c := range []struct {
		name string
		args []string
	}{
		{"flock(1)", []string{"flock", file, "true"}},
		{"padlock flock", []string{padlock, "flock", file, "true"}},
		{"padlock version", []string{padlock, "--version"}},
		{"padlock run", []string{padlock, "run", "name", "--", "true"}},
	} {
		b.Run(c.name, func(b *testing.B) {
			var busy time.Duration
			for b.Loop() {
				cmd := exec.Command(c.args[0], c.args[1:]...)
				if out, err := cmd.CombinedOutput(); err != nil {
					b.Fatalf("%v: %s", err, out)
				}
				busy += cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
			}
			b.ReportMetric(float64(busy.Microseconds())/1000/float64(b.N), "cpu-ms/op")
			if c.name == "padlock run" {
				supervisor, front := memoryOf(b, padlock)
				b.ReportMetric(front, "MB-front")
				b.ReportMetric(supervisor, "MB-supervisor")
			}
		})
	}
}

// memoryOf returns the largest resident memory of both processes of a run, in MB.
func memoryOf(b *testing.B, padlock string) (supervisor, front float64) {
	b.Helper()
	const script = `for pid in $PPID $(sed -n 's/^PPid:\s*//p' /proc/$PPID/status); do sed -n 's/^VmHWM:\s*\([0-9]*\) kB/\1/p' /proc/$pid/status; done`
	out, err := exec.Command(padlock, "run", "name", "--", "sh", "-c", script).Output()
	fields := strings.Fields(string(out))
	if err != nil || len(fields) != 2 {
		b.Fatalf("%v: %q", err, out)
	}
	for i, to := range []*float64{&supervisor, &front} {
		n, err := strconv.Atoi(fields[i])
		if err != nil {
			b.Fatal(err)
		}
		*to = float64(n) * 1024 / 1e6
	}
	return supervisor, front
}
