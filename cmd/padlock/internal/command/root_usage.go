package command

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// This file replaces messages of cobra and pflag by padlock's own.

// otherWords maps verbs of other programs to padlock's.
var otherWords = map[string]string{
	"unlock": "release or break", "lock": "run or acquire", "list": "ls", "locks": "ls", "show": "status", "info": "status",
	"ps": "ls or top", "rm": "release or break", "get": "acquire or status",
	"exec": "run", "web": "serve", "ui": "serve", "renew": "extend", "take": "acquire", "free": "release", "steal": "break", "kill": "break",
	"verify": "the program padlock-verify", "wait": "run NAME -- true",
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
	if !errors.As(err, &value) {
		return err.Error()
	}
	flag, why := value.GetFlag().Name, value.Unwrap().Error()
	switch wrong := new(strconv.NumError); {
	case errors.As(err, &wrong) && wrong.Func == "ParseBool":
		why = "write true or false"
	case errors.As(err, &wrong):
		why = "write a whole number"
	}
	if value.GetValue() == "" {
		return fmt.Sprintf("--%s is empty; %s", flag, why)
	}
	return fmt.Sprintf("--%s %s: %s", flag, show(value.GetValue()), why)
}

// inPadlocksWords replaces the help texts of cobra.
func inPadlocksWords(root *cobra.Command) {
	root.SetUsageFunc(writeUsage)
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
}

// allVerbs begins the list of the flags that every verb has.
const allVerbs = "\n\nFlags of all verbs:\n"

// writeUsage writes the part of a help text that follows the description of a verb. It uses no
// template: in a program with text/template, the linker keeps all methods of all types, which makes
// padlock a third larger.
func writeUsage(c *cobra.Command) error {
	var b strings.Builder
	b.WriteString("Usage:")
	if c.Runnable() {
		b.WriteString("\n  " + c.UseLine())
	}
	if c.HasAvailableSubCommands() {
		b.WriteString("\n  " + c.CommandPath() + " VERB")
	}
	if c.HasExample() {
		b.WriteString("\n\nExamples:\n" + c.Example)
	}
	if c.HasAvailableSubCommands() {
		for _, g := range c.Groups() {
			b.WriteString(verbList(c, g.Title, g.ID))
		}
		b.WriteString(verbList(c, "More:", ""))
	}
	if c.HasAvailableLocalFlags() {
		b.WriteString("\n\nFlags:\n" + flagList(c.LocalFlags()))
	}
	if c.HasAvailableInheritedFlags() {
		b.WriteString(allVerbs + flagList(c.InheritedFlags()))
	}
	if c.HasAvailableSubCommands() {
		b.WriteString("\n\n\"" + c.CommandPath() + " VERB --help\" explains a verb.")
	}
	b.WriteString("\n")
	_, err := io.WriteString(c.OutOrStderr(), b.String())
	return err
}

// helpWidth is the greatest width of a line in the lists of flags. It is also the greatest width of
// all other lines of the help.
const helpWidth = 90

// flagList returns the flags with their explanations. An explanation that is too long for a line
// goes on below.
func flagList(flags *pflag.FlagSet) string {
	return strings.TrimRight(flags.FlagUsagesWrapped(helpWidth), " \n")
}

// verbList returns the verbs of a group under a heading, or "" if the group has none.
func verbList(c *cobra.Command, title, group string) string {
	var list string
	for _, verb := range c.Commands() {
		if verb.GroupID == group && (verb.IsAvailableCommand() || verb.Name() == "help") {
			list += fmt.Sprintf("\n  %-*s %s", verb.NamePadding(), verb.Name(), verb.Short)
		}
	}
	if list == "" {
		return ""
	}
	return "\n\n" + title + list
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
