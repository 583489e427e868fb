package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// These are padlock's versions of the messages of cobra and pflag.

// otherWords maps verbs of other programs to padlock's.
var otherWords = map[string]string{
	"unlock": "release or break", "lock": "run or acquire", "list": "ls", "locks": "ls", "show": "status", "info": "status",
	"exec": "run", "web": "serve", "ui": "serve", "renew": "extend", "take": "acquire", "free": "release", "steal": "break", "kill": "break",
}

// noSuchVerb is the failure for a word that is not a verb.
func noSuchVerb(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	meant := otherWords[args[0]]
	if meant == "" && len(args[0]) > 2 { // a word of two letters is similar to everything
		meant = strings.Join(c.Root().SuggestionsFor(args[0]), " or ")
	}
	if meant == "" {
		return usage("padlock has no verb %q; see padlock --help", args[0])
	}
	return usage("padlock has no verb %q; did you mean %s?", args[0], meant)
}

// flagProblem describes an error in a flag.
func flagProblem(err error) string {
	var value *pflag.InvalidValueError
	if errors.As(err, &value) {
		return fmt.Sprintf("--%s %s: %v", value.GetFlag().Name, show(value.GetValue()), value.Unwrap())
	}
	return err.Error()
}

// inPadlocksWords replaces the help texts of cobra.
func inPadlocksWords(root *cobra.Command) {
	const more = `Use "{{.CommandPath}} [command] --help" for more information about a command.`
	root.SetUsageTemplate(strings.NewReplacer(
		more, `"{{.CommandPath}} VERB --help" explains a verb.`,
		"{{.CommandPath}} [command]", "{{.CommandPath}} VERB",
		"Additional Commands:", "More:",
		"Global Flags:", "Flags of all verbs:",
	).Replace(root.UsageTemplate()))
	root.SetHelpCommand(&cobra.Command{
		Use:               "help [VERB]",
		Short:             "Show the help of padlock or of a verb",
		ValidArgsFunction: completeVerb,
		RunE: func(c *cobra.Command, args []string) error {
			verb, rest, err := c.Root().Find(args)
			if err != nil || verb == c.Root() && len(rest) > 0 {
				return noSuchVerb(c, args)
			}
			return verb.Help()
		},
	})
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		if c.Name() != "completion" {
			continue
		}
		c.Short = "Print a script that completes padlock's verbs and flags in a shell"
		for _, shell := range c.Commands() {
			shell.Short = "Print the script for " + shell.Name()
		}
	}
}

func completeVerb(c *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	var list []string
	for _, verb := range c.Root().Commands() {
		if len(args) == 0 && verb.IsAvailableCommand() && strings.HasPrefix(verb.Name(), begun) {
			list = append(list, verb.Name()+"\t"+verb.Short)
		}
	}
	return list, cobra.ShellCompDirectiveNoFileComp
}
