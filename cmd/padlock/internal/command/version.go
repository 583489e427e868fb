package command

import (
	"fmt"

	"github.com/spf13/cobra"
)

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:                   "version",
		DisableFlagsInUseLine: true,
		Short:                 "Print the version",
		Long:                  "version prints the name of the program, padlock or padlock-all, its version, the Go\nversion that built it, and its system.",
		Example:               "  padlock version\n  padlock version --json",
		Args:                  noArgs,
		RunE:                  func(*cobra.Command, []string) error { return a.printVersion() },
	}
}

func (a *app) printVersion() error {
	v := a.build()
	if a.json {
		return a.print(a.stdout, v)
	}
	_, err := fmt.Fprintf(a.stdout, "%s %s (%s, %s)\n", v.Program, v.Version, v.Go, v.System)
	return err
}
