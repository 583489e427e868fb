package command

import (
	"bytes"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

const completionLong = `completion prints a script for SHELL: bash, zsh, fish or powershell. With it, the Tab
key completes the verbs and flags of padlock, and the names of locks that are held.

bash needs the package bash-completion. powershell reads the script in its profile:
padlock completion powershell | Out-String | Invoke-Expression`

// shells has the function that writes the script for each shell.
var shells = map[string]func(*cobra.Command, io.Writer) error{
	"bash":       func(root *cobra.Command, w io.Writer) error { return root.GenBashCompletionV2(w, true) },
	"zsh":        (*cobra.Command).GenZshCompletion,
	"fish":       func(root *cobra.Command, w io.Writer) error { return root.GenFishCompletion(w, true) },
	"powershell": (*cobra.Command).GenPowerShellCompletionWithDesc,
}

// completionCommand takes the place of cobra's command, which prints a help text for a shell that
// it does not know, with exit status 0.
func (a *app) completionCommand() *cobra.Command {
	names := slices.Sorted(maps.Keys(shells))
	return &cobra.Command{
		Use:   "completion SHELL",
		Short: "Print a script that completes padlock's verbs and flags in a shell",
		Long:  completionLong,
		Example: `  source <(padlock completion bash)
  padlock completion bash >/etc/bash_completion.d/padlock
  padlock completion fish >~/.config/fish/completions/padlock.fish
  padlock completion zsh >"${fpath[1]}/_padlock"`,
		DisableFlagsInUseLine: true,
		ValidArgs:             names,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 || shells[args[0]] == nil {
				return usage("name one shell: padlock completion %s", strings.Join(names, "|"))
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			var script bytes.Buffer
			c.Root().Use = a.programName // the script completes the program that printed it
			if err := shells[args[0]](c.Root(), &script); err != nil {
				return err
			}
			_, err := a.stdout.Write(script.Bytes())
			return err
		},
	}
}
