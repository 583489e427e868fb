package command

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/padlock-go/padlock"
)

// app is the state that all verbs share.
type app struct {
	*program
	stdout, stderr io.Writer
	storeURL       string // as given by --store
	fromEnv        *environment
	json           bool
	opened         padlock.Store // the store, once it is open
	status         int           // the exit status of a verb that did not fail
	misnamed       bool          // this is padlock under the name padlock-all
}

// execute runs the command line and returns the exit status.
func (a *app) execute(args []string) int {
	root := a.root()
	root.SetArgs(args)
	if len(args) > 0 && strings.HasPrefix(args[0], cobra.ShellCompRequestCmd) {
		a.prepareCompletion(root)
	}
	help := &helpWriter{Writer: a.stdout}
	root.SetOut(help)
	root.SetErr(a.stderr)
	a.json = asksForJSON(args) // errors may occur before the flags are parsed
	err := root.ExecuteContext(context.Background())
	if err == nil {
		err = help.err
	}
	var f *failure
	var file *fs.PathError // the output could not be written; every other error of a command is a *failure
	switch {
	case err == nil:
		return a.status
	case errors.As(err, &f):
		if f.note.Message != "" {
			a.say(f.note)
		}
		return f.status
	}
	if errors.As(err, &file) {
		a.say(note{Event: "output", Message: "the output could not be written: " + pathReason(err), Exit: exitOutput})
		return exitOutput
	}
	// Cobra itself found an error in the command line.
	a.say(note{Event: "usage", Message: err.Error() + "; see padlock --help", Exit: exitUsage})
	return exitUsage
}

// helpWriter keeps the first error of the output of a help text, because cobra drops it.
type helpWriter struct {
	io.Writer
	err error
}

func (w *helpWriter) Write(p []byte) (int, error) {
	n, err := w.Writer.Write(p)
	if w.err == nil {
		w.err = err
	}
	return n, err
}

// asksForJSON looks for --json among padlock's own arguments.
func asksForJSON(args []string) bool {
	if i := slices.Index(args, "--"); i >= 0 {
		args = args[:i]
	}
	return slices.Contains(args, "--json")
}

func (a *app) root() *cobra.Command {
	var version bool
	root := &cobra.Command{
		Use:   "padlock",
		Short: "Run a command while holding a lock",
		Long: `padlock runs a command while it holds a lock, so that only one process at a time
does the job, or only one machine, with a store on a server such as Redis.

` + a.programLong(),
		Example: `  padlock run nightly-report -- ./report.sh
  padlock run -n nightly-report -- ./report.sh     # do not wait: exit with 75 if it is running
  padlock status nightly-report                    # who holds the lock?`,
		SilenceErrors:         true,
		SilenceUsage:          true,
		DisableFlagsInUseLine: true,
		Args:                  noSuchVerb,

		SuggestionsMinimumDistance: 2,
		PersistentPreRunE: func(c *cobra.Command, _ []string) error {
			// An empty URL usually comes from a variable that a script has not set, and the default
			// store would lock nothing on other machines.
			if a.storeURL == "" && c.Flags().Changed("store") {
				return usage("--store is empty; give the URL of a store, or leave out --store for files of this user; see %s --help", c.CommandPath())
			}
			return a.chooseProgram(c)
		},
		RunE: func(c *cobra.Command, _ []string) error {
			if version {
				return a.printVersion()
			}
			return c.Help()
		},
	}
	root.Flags().BoolVarP(&version, "version", "V", false, "print the version")
	flags := root.PersistentFlags()
	flags.StringVar(&a.storeURL, "store", "", "where locks are kept, a `URL` (default $PADLOCK_STORE, else the URL in the file $PADLOCK_STORE_FILE, else files of this user)")
	flags.BoolVar(&a.json, "json", false, "print everything in JSON, one object per line")
	flags.BoolP("help", "h", false, "show this help")
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		if c == root && c.Flags().NArg() > 0 { // not a flag of padlock, but of what is no verb
			return noSuchVerb(c, c.Flags().Args())
		}
		if c == root {
			return usage("%s; the flags of a verb stand after it: padlock VERB FLAGS; see padlock --help", flagProblem(err))
		}
		return usage("%s; see %s --help", flagProblem(err), c.CommandPath())
	})
	addGroup(root, "Work under a lock:", a.runCommand())
	addGroup(root, "Inspect:", a.statusCommand(), a.lsCommand(), a.topCommand(), a.historyCommand(), a.serveCommand())
	addGroup(root, "Long-lived locks (by key):", a.acquireCommand(), a.extendCommand(), a.adoptCommand(), a.releaseCommand(), a.keyCommand())
	addGroup(root, "Emergency:", a.reportCommand(), a.askCommand(), a.breakCommand())
	addGroup(root, "Where locks are kept:", a.storesCommand(), a.schemaCommand(), a.doctorCommand())
	root.AddCommand(a.completionCommand(), a.manCommand(), a.versionCommand())
	inPadlocksWords(root)
	return root
}

// addGroup adds verbs under a heading of the help.
func addGroup(root *cobra.Command, title string, verbs ...*cobra.Command) {
	root.AddGroup(&cobra.Group{ID: title, Title: title})
	for _, v := range verbs {
		v.GroupID = title
		root.AddCommand(v)
	}
}
