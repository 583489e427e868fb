package command

import (
	"errors"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/padlock-go/padlock/open"
)

// This file switches to padlock-all if padlock lacks the store of a URL, or the verb. It does so
// after the flags are parsed and before the verb does anything:
//
//	this program  the store or the verb       padlock-all       then
//	padlock-all   any                                           the verb runs here
//	padlock       it is in padlock                              the verb runs here
//	padlock       only padlock-all has it     is found          padlock-all runs in place of padlock
//	padlock       only padlock-all has it     is not found      the error says how to install it
//	padlock       serve --api                 is not found      the API runs here, without the page
//	padlock       the URL cannot be read      is found          padlock-all runs, with its better error
//	padlock       the URL cannot be read      is not found      padlock's own error
//	padlock       the URL came from a pipe    any               an error: padlock-all has to read it again
//	padlock under the name padlock-all                        an error: it has the wrong name

// onlyInAll are the stores that only padlock-all has, by the schemes of their URLs and of Symfony's
// DSNs. A test compares the list with package open/all.
var onlyInAll = []string{
	"dynamodb", "etcd", "etcds", "gs", "kubernetes", "mongodb", "mongodb+srv", "s3", "sqlite", "sqlite3", "zk", "zookeeper",
}

// listOfOthers names the stores that only padlock-all has, for help texts.
const listOfOthers = "SQLite, etcd, ZooKeeper, MongoDB, S3, DynamoDB and Kubernetes"

// storeless are the verbs that use no store. They never switch.
var storeless = []string{smallName, "completion", "help", "key", "man", "version", cobra.ShellCompRequestCmd, cobra.ShellCompNoDescRequestCmd}

// chooseProgram switches to padlock-all if the verb needs it. It returns only if this program
// has what the verb needs, or if the switch has failed.
func (a *app) chooseProgram(c *cobra.Command) error {
	switch {
	case a.programName == allName || slices.Contains(storeless, c.Name()):
		return nil
	case c.Name() == "serve" && !a.servesAPIAlone(c):
		return a.switchToAll("the page of padlock serve needs")
	case c.Name() == "stores" && a.storeURL == "" && c.Flag("used").Value.String() == "false":
		return nil // it prints the table of this program's stores
	}
	return a.chooseByStore()
}

// servesAPIAlone reports whether this program serves the API without the page, because it is padlock
// and finds no padlock-all.
func (a *app) servesAPIAlone(c *cobra.Command) bool {
	_, err := findAll()
	return c.Flag("api").Value.String() == "true" && err != nil
}

// chooseByStore is chooseProgram for the store that --store or the environment names.
func (a *app) chooseByStore() error {
	rawURL, err := a.url()
	if err != nil || a.programName == allName {
		return nil // the verb reports the error
	}
	scheme, err := a.foreignScheme(rawURL, 0)
	once := a.readAgain("stores of "+scheme+": need "+allName+", which", "run "+allName+" itself, or write the URL to a file")
	switch {
	case scheme != "" && once != nil:
		return once
	case scheme != "":
		return a.switchToAll("stores of " + scheme + ": need")
	case err == nil || once != nil:
		return nil // if there is an error, the verb reports it
	}
	if path, err := findAll(); err == nil && !a.misnamed {
		return a.become(path)
	}
	return nil // the verb reports the error
}

// deepest bounds how deep quorums in a URL are searched. Package open refuses deeper ones.
const deepest = 8

// foreignScheme returns the first scheme in the URL that only padlock-all has, or "". In the URL of
// a quorum it looks at the members. If the URL cannot be read, it returns an error.
func (p *program) foreignScheme(rawURL string, depth int) (string, error) {
	scheme, _, found := strings.Cut(strings.TrimPrefix(rawURL, "symfony+"), ":")
	if found && slices.Contains(onlyInAll, scheme) {
		return scheme, nil
	}
	u, s, err := open.Parse(rawURL, p.schemes)
	if err != nil || !s.Composite || depth >= deepest {
		return "", err
	}
	return p.foreignMember(u, depth)
}

func (p *program) foreignMember(u *url.URL, depth int) (string, error) {
	var problem error
	for _, member := range u.Query()["store"] {
		scheme, err := p.foreignScheme(member, depth+1)
		if scheme != "" {
			return scheme, nil
		}
		problem = errors.Join(problem, err)
	}
	return "", problem
}

// switchToAll runs padlock-all in place of this program. It returns only if that fails. The
// parameter what is the beginning of a sentence that ends with the name of the program.
func (a *app) switchToAll(what string) error {
	if a.misnamed {
		return usage("%s %s, but the program of this name that was found is padlock itself (%s); install padlock-all under its own name", what, allName, show(selfPath()))
	}
	path, err := findAll()
	if err != nil {
		missing := fail(exitUsage, "usage", "", "%s %s, which is neither next to this program (%s) nor in PATH; install it:", what, allName, show(selfPath()))
		missing.note.Do = []string{a.installLine()}
		return missing
	}
	return a.become(path)
}

// become runs the program at path with the arguments and the environment of this process.
func (a *app) become(path string) error {
	return cannotRun(path, replaceProcess(path, append([]string{path}, os.Args[1:]...)))
}

// findAll returns the path of padlock-all: next to this program, or in PATH.
func findAll() (string, error) {
	name := allName
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	if self := selfPath(); self != "" {
		if path, err := exec.LookPath(filepath.Join(filepath.Dir(self), name)); err == nil {
			return path, nil
		}
	}
	return exec.LookPath(name) // it refuses a program that "." in PATH finds
}

// selfPath returns the path of this program, without symbolic links if possible.
func selfPath() string {
	self, err := os.Executable()
	if err != nil {
		return ""
	}
	if resolved, err := filepath.EvalSymlinks(self); err == nil {
		return resolved
	}
	return self
}

// programLong returns the part of the help that says what this program has.
func (p *program) programLong() string {
	if p.programName == allName {
		return "This is padlock-all, which has every store and the page of \"padlock serve\"."
	}
	return `This is padlock, with locks in files, semaphores, Redis, PostgreSQL, MySQL, memcached,
"padlock serve" and quorums of them. For other stores, and for the page of "padlock serve",
it runs padlock-all in its place, if that is next to it or in PATH.`
}

// otherProgram returns the lines that tell a user of padlock where the other stores are.
func (p *program) otherProgram() string {
	where := "install it:\n  " + p.installLine()
	if path, err := findAll(); err == nil {
		where = "padlock runs " + show(path) + " for them."
	}
	return "This program is padlock. padlock-all also has " + listOfOthers + ";\n" + where + "\n"
}

// installLine returns the command that installs padlock-all: in the version of this program, or
// from the source if this program is no release.
func (p *program) installLine() string {
	if version := p.build().Version; releaseVersion(version) {
		return "go install github.com/padlock-go/padlock/cmd/padlock/padlock-all@" + version
	}
	return "git clone https://github.com/padlock-go/padlock && cd padlock && go install ./cmd/padlock/padlock-all"
}

// releaseVersion reports whether the text is the version of a tag, such as v1.2.0.
func releaseVersion(text string) bool {
	return regexp.MustCompile(`^v\d+\.\d+\.\d+$`).MatchString(text)
}
