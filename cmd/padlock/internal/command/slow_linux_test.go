package command

import (
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/padlock-go/padlock/internal/server"
)

// TestSlowExec runs the scripts of testdata/slow. There "slow FILE" writes a program that makes the
// file FILE.ran, and whose execution does not get on until "slow go FILE". "slow begun FILE" waits
// until a process executes it.
func TestSlowExec(t *testing.T) {
	p := scripts("testdata/slow")
	p.Cmds["slow"] = func(ts *testscript.TestScript, neg bool, args []string) {
		programs, _ := ts.Value("slow").(map[string]*server.SlowProgram)
		switch {
		case len(args) == 1:
			slow, err := server.NewSlowProgram(ts.MkAbs(args[0]), []byte("#!/bin/sh\n: >\"$0.ran\"\n"))
			ts.Check(err)
			programs[args[0]] = slow
		case len(args) == 2 && args[0] == "begun":
			until(ts, args[1]+" is being executed", programs[args[1]].Begun)
		case len(args) == 2 && args[0] == "go":
			ts.Check(programs[args[1]].Go())
		default:
			ts.Fatalf("usage: slow [begun|go] FILE")
		}
	}
	p.Setup = func(env *testscript.Env) error {
		env.Values["slow"] = map[string]*server.SlowProgram{}
		return setUpScript(env)
	}
	testscript.Run(t, p)
}
