package command

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// completeName completes NAME with the locks that padlock ls lists. It prints no errors, because
// they would disturb the line that the user is typing.
func (a *app) completeName(c *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	if a.chooseByStore() != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel := context.WithTimeout(context.Background(), a.completePatience)
	defer cancel()
	l, err := a.looker(ctx, "")
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	defer a.close(l)
	states, _ := l.List(ctx, begun) // after an error, List returns the names that the store knows
	var names []string
	for _, s := range states {
		if s.Name != "" && plain(s.Name) { // other names would need quotes
			names = append(names, s.Name)
		}
	}
	slices.Sort(names)
	return names, cobra.ShellCompDirectiveNoFileComp
}

// completeRun completes NAME. The shell completes COMMAND and its arguments.
func (a *app) completeRun(c *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return completeFiles(c, args, begun)
	}
	return a.completeName(c, args, begun)
}

// completeFiles lets the shell complete files.
func completeFiles(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveDefault
}

// prepareCompletion tells cobra how to complete the arguments and the values of flags. The shell
// completes files only where a file is meant.
func (a *app) prepareCompletion(root *cobra.Command) {
	root.CompletionOptions.SetDefaultShellCompDirective(cobra.ShellCompDirectiveNoFileComp)
	for _, verb := range root.Commands() {
		verb.Flags().VisitAll(func(f *pflag.Flag) {
			if how := a.completeValue(f); how != nil {
				_ = verb.RegisterFlagCompletionFunc(f.Name, how) // the flag exists
			}
			f.Usage = strings.ReplaceAll(f.Usage, "`", "") // the quotes are for the help
		})
	}
	root.PersistentFlags().VisitAll(func(f *pflag.Flag) { f.Usage = strings.ReplaceAll(f.Usage, "`", "") })
}

// completeValue returns the function that completes the values of a flag, or nil if only the user
// knows them.
func (a *app) completeValue(f *pflag.Flag) cobra.CompletionFunc {
	value, _ := pflag.UnquoteUsage(f)
	switch {
	case value == "FILE" || value == "DIRECTORY":
		return completeFiles
	case f.Name == "also" || f.Name == "watch":
		return func(c *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
			return a.completeName(c, nil, begun)
		}
	case f.Name == "wait-policy":
		return cobra.FixedCompletions([]string{"skip", "wait"}, cobra.ShellCompDirectiveNoFileComp)
	case f.Name == "signal":
		return cobra.FixedCompletions(slices.Sorted(maps.Keys(signalNames)), cobra.ShellCompDirectiveNoFileComp)
	}
	return nil
}
