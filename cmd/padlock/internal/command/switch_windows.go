package command

import (
	"os"
	"os/signal"

	"github.com/padlock-go/padlock/cmd/padlock/internal/console"
	"github.com/padlock-go/padlock/cmd/padlock/internal/job"
)

// replaceProcess runs another program as a child, and exits with its status, because Windows cannot
// run another program in the same process. Ctrl-C reaches both programs, and the child decides what
// happens. If this process is killed, the kernel ends the child.
func replaceProcess(path string, args []string) error {
	signal.Notify(make(chan os.Signal, 1), console.FromStart...) // otherwise Ctrl-C would end this process
	child := job.Start(job.Spec{Path: path, Args: args, Env: os.Environ(), Leave: true})
	<-child.Started()
	if err := child.Err(); err != nil {
		return err
	}
	<-child.Done()
	os.Exit(child.Exit().Status())
	return nil
}
