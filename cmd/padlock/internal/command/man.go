package command

import (
	"cmp"
	"io"
	"strings"

	"github.com/spf13/cobra"
)

// The manual page consists of the help texts of the verbs and of the texts below. So the page and
// the help always say the same.

const manEnvironment = `PADLOCK_STORE
The URL of the store, unless --store is given. A URL with a password belongs here or into PADLOCK_STORE_FILE, not on the command line. With the word "required" there is no default store: --store or PADLOCK_STORE_FILE must name one. It is an error if the variable is set but empty.

PADLOCK_STORE_FILE
A file that holds the URL of the store, such as a mounted secret. It is an error to set both variables.

PADLOCK_KEY
A key, for padlock adopt, extend and release.

PADLOCK_FENCE_ABOVE
A fence. Those of all locks that padlock takes are greater: after a backup of the store, set it to the greatest one that was seen.

PADLOCK_NAME, PADLOCK_FENCE, PADLOCK_EXPIRES
Set for the command of padlock run, together with PADLOCK_STORE or PADLOCK_STORE_FILE.

PADLOCK_LOCK_KEY
The key of the lock, set for the command of padlock run --pass-key.`

const manFiles = `/var/lib/padlock
Lock files of root if no store is named, and facts that padlock remembers about servers.

~/.local/state/padlock
The same for every other user. The home directory is that of the user database; HOME does not matter.`

func (a *app) manCommand() *cobra.Command {
	return &cobra.Command{
		Use:                   "man",
		DisableFlagsInUseLine: true,
		Short:                 "Print the manual page",
		Long:                  "man prints the manual page of padlock, for man(1).",
		Example:               "  padlock man | man -l -\n  padlock man >/usr/local/share/man/man1/padlock.1",
		Args:                  noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			_, err := io.WriteString(a.stdout, manPage(c.Root(), a.build().Version))
			return err
		},
	}
}

// manPage returns the manual page of padlock and its verbs.
func manPage(root *cobra.Command, version string) string {
	var p page
	p.whole(root, version)
	return p.String()
}

// page builds a manual page.
type page struct{ strings.Builder }

// macro writes a line with a roff macro and its quoted arguments.
func (p *page) macro(name string, args ...string) {
	p.WriteString("." + name)
	for _, arg := range args {
		p.WriteString(` "` + strings.ReplaceAll(roff(arg), `"`, `\(dq`) + `"`)
	}
	p.WriteByte('\n')
}

// line writes one line of text.
func (p *page) line(text string) {
	text = roff(text)
	if strings.HasPrefix(text, ".") || strings.HasPrefix(text, "'") {
		text = `\&` + text
	}
	p.WriteString(text + "\n")
}

// roff escapes characters that roff would interpret.
func roff(text string) string {
	return strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(text)
}

func (p *page) whole(root *cobra.Command, version string) {
	p.macro("TH", "PADLOCK", "1", "", "padlock "+version, "User Commands")
	p.macro("SH", "NAME")
	p.line("padlock - " + strings.ToLower(root.Short[:1]) + root.Short[1:])
	p.macro("SH", "SYNOPSIS")
	p.literal("padlock VERB [FLAGS] [ARGUMENTS]")
	p.macro("SH", "DESCRIPTION")
	p.literal(root.Long + "\n\n" + root.UsageString())
	p.macro("SH", "VERBS")
	for _, verb := range root.Commands() {
		if verb.IsAvailableCommand() && verb.Name() != "help" {
			p.macro("SS", verb.CommandPath())
			text, _, _ := strings.Cut(cmp.Or(verb.Long, verb.Short+".")+"\n\n"+verb.UsageString(), allVerbs)
			p.literal(text)
		}
	}
	p.macro("SH", "ENVIRONMENT")
	p.entries(manEnvironment)
	p.macro("SH", "FILES")
	p.entries(manFiles)
	p.macro("SH", "SEE ALSO")
	p.line("flock(1), timeout(1), https://github.com/padlock-go/padlock")
}

// literal writes lines as they are.
func (p *page) literal(text string) {
	p.macro("nf")
	for line := range strings.Lines(text) {
		p.line(strings.TrimRight(line, " \n"))
	}
	p.macro("fi")
}

// entries writes terms, each on its own line, with its text below.
func (p *page) entries(text string) {
	for _, entry := range strings.Split(text, "\n\n") {
		term, about, _ := strings.Cut(entry, "\n")
		p.macro("TP")
		p.macro("B", term)
		p.line(about)
	}
}
