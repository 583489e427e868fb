package rig

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/padlock-go/padlock/internal/server"
)

// A program that is executed during the fault does not begin before its end.
func TestSlowExecs(t *testing.T) {
	t.Parallel()
	program := filepath.Join(t.TempDir(), "job")
	if err := server.WriteProgram(program, []byte("#!/bin/sh\n")); err != nil {
		t.Fatal(err)
	}
	f := slowExecs([]string{program})[0]
	for range 2 {
		ran := make(chan error, 1)
		go func() { // it keeps the file open for a moment, so the fault may have to try again
			for range 2 {
				if err := exec.CommandContext(t.Context(), program).Run(); err != nil {
					ran <- err
				}
			}
			close(ran)
		}()
		undo, err := f.Begin(nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		select {
		case err := <-ran:
			t.Errorf("it ran during the fault: %v", err)
		default:
		}
		if err := undo(); err != nil {
			t.Fatal(err)
		}
		if err := <-ran; err != nil {
			t.Error(err)
		}
	}
}
