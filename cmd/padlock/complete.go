package main

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"
)

// completePatience bounds how long a person waits for the names of locks after pressing Tab.
const completePatience = 2 * time.Second

// completeName completes NAME with the locks that padlock ls lists. It prints no errors, because
// they would disturb the line that the user is typing.
func (a *app) completeName(c *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveDefault // the shell completes COMMAND and its arguments
	}
	ctx, cancel := context.WithTimeout(context.Background(), completePatience)
	defer cancel()
	l, err := a.looker(ctx, "")
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	defer a.close(l)
	states, _ := l.List(ctx, begun) // after an error, List returns the names that the store knows
	var names []string
	for _, s := range states {
		if s.Name != "" && plain.MatchString(s.Name) { // other names would need quotes
			names = append(names, s.Name)
		}
	}
	slices.Sort(names)
	return names, cobra.ShellCompDirectiveNoFileComp
}

// completeValues lets the shell complete the values of flags that have a fixed set of values.
func completeValues(c *cobra.Command) {
	for flag, values := range map[string][]string{
		"wait-policy": {"skip", "wait"},
		"signal":      slices.Sorted(maps.Keys(signalNames)),
	} {
		_ = c.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)) // both flags exist
	}
}
