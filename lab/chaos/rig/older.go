package rig

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/gob"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/internal/soak"
	"github.com/padlock-go/padlock/stores/filestore"
)

// olderText is the content of older.txt. In some rows of the soak, workers of an older padlock run
// together with workers of the current padlock. Each of these rows belongs to a group, and
// older.txt names the commit of the older padlock for each group.
//
//go:embed older.txt
var olderText string

// Encoding is the encoding between the engine and the workers, for [soak.PlayWorker]. Workers of an
// older build know only this encoding.
func Encoding(conn net.Conn) (soak.Encoder, soak.Decoder) {
	return gob.NewEncoder(conn), gob.NewDecoder(conn)
}

// olderCommit returns the commit of the older padlock for a group of rows. The text has the format
// of older.txt.
func olderCommit(text, group string) (string, error) {
	var commits []string
	for line := range strings.Lines(text) {
		if words := strings.Fields(line); len(words) == 2 && words[0] == group {
			commits = append(commits, words[1])
		}
	}
	if len(commits) != 1 {
		return "", fmt.Errorf("older.txt names %d commits for %q, want one", len(commits), group)
	}
	return commits[0], nil
}

// buildCommit builds this program as it was at a commit and returns the path of the binary. The
// source comes from the git history of the clone in which the soak runs. Sites with the same
// [Options.Older] share the build, even if they are in different processes.
func (s *Site) buildCommit(commit string) (string, error) {
	root, err := git("rev-parse", "--show-toplevel")
	if err != nil {
		return "", fmt.Errorf("an older padlock is built from the git history: %w", err)
	}
	if _, err := git("cat-file", "-e", commit+"^{commit}"); err != nil {
		return "", fmt.Errorf("older.txt names %s, which this clone does not have: fetch the whole history (git fetch --unshallow): %w", commit, err)
	}
	dir := cmp.Or(s.older, s.dir)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	builds, err := filestore.Open(filepath.Join(dir, "locks"))
	if err != nil {
		return "", err
	}
	locker := padlock.New(builds)
	defer locker.Close(context.Background())
	binary := filepath.Join(dir, "chaos-"+commit)
	return binary, locker.Do(context.Background(), commit, func(context.Context) error {
		if _, err := os.Stat(binary); err == nil {
			return nil
		}
		return buildSource(root, commit, filepath.Join(dir, commit), binary)
	})
}

// buildSource builds this program in a new directory. Without -trimpath, the build takes the
// packages of other modules from Go's cache, where the build of this tree has put them.
func buildSource(root, commit, dir, binary string) error {
	if err := os.RemoveAll(dir); err != nil { // what a build that failed has left
		return err
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	source, built := dir+".tar", binary+".new"
	if _, err := git("-C", root, "archive", "-o", source, commit); err != nil {
		return err
	}
	if _, err := output(exec.Command("tar", "-xf", source, "-C", dir)); err != nil {
		return err
	}
	if err := mend(dir); err != nil {
		return err
	}
	build := exec.Command("go", "build", "-buildvcs=false", "-o", built, "./chaos")
	build.Dir = filepath.Join(dir, "lab")
	if _, err := os.Stat(build.Dir); err != nil {
		build.Dir = filepath.Join(dir, "internal", "integration") // the place of this program before lab
	}
	build.Env = append(os.Environ(), "GOWORK="+filepath.Join(dir, "go.work"), "GOFLAGS=")
	if _, err := output(build); err != nil {
		return err
	}
	return os.Rename(built, binary)
}

// mend corrects the source of an older build, in which filestore took a name that was under a lease
// if it had used the name eight times and the lease's record was longer than the file had been. A
// row with that build would show this defect, and nothing about the formats.
func mend(dir string) error {
	file := filepath.Join(dir, "filestore", "hot_linux.go")
	source, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return nil // a later build, which has its stores elsewhere and no row of files
	}
	if err != nil {
		return err
	}
	const short, whole = "min(len(b), pageSize, int(max(c.size, 0)))", "min(len(b), pageSize)"
	if strings.Count(string(source), short) != 1 {
		return fmt.Errorf("%s has no defect to mend: remove the mend", file)
	}
	return os.WriteFile(file, []byte(strings.Replace(string(source), short, whole, 1)), 0o600)
}

// git runs git in the current directory, even if the clone belongs to another user.
func git(args ...string) (string, error) {
	return output(exec.Command("git", append([]string{"-c", "safe.directory=*"}, args...)...))
}

// output returns the text that a command prints on standard output. If the command fails, the error
// contains what it printed on standard error.
func output(cmd *exec.Cmd) (string, error) {
	out, err := cmd.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		err = fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args, " "), err, strings.TrimSpace(string(exit.Stderr)))
	}
	return strings.TrimSpace(string(out)), err
}

// rolling adds an upgrade and a downgrade to a row. At first, half of the workers run the older
// padlock, and the other half run the padlock of this tree. Then each worker is replaced by a
// worker of the other version. All workers use the same names. The older padlock is built from the
// commit that older.txt names for the group.
func rolling(group string, build func(*Site) (*setup, error)) func(*Site) (*setup, error) {
	return func(s *Site) (*setup, error) {
		set, err := build(s)
		if err != nil {
			return nil, err
		}
		commit, err := olderCommit(olderText, group)
		if err != nil {
			return nil, err
		}
		buildOlder := s.buildCommit
		if s.build != nil {
			buildOlder = s.build
		}
		older, err := buildOlder(commit)
		if err != nil {
			return nil, err
		}
		first, second := make([]string, s.Workers), make([]string, s.Workers) // "" means this program
		for id := range s.Workers {
			if id < s.Workers/2 {
				first[id] = older
			} else {
				second[id] = older
			}
		}
		set.stages = slices.Repeat(set.stages[:1], 2)
		set.programs = [][]string{first, second}
		return set, nil
	}
}

// rollingSQL adds an upgrade and a downgrade to a Row of sqlstore. When the older sqlstore releases
// a lock with a cool-down, it does not wake the first waiter. So another waiter may get the name
// first. If coolDowns is true, the workers use cool-downs, and the order of waiters is not checked.
// Otherwise the workers use no cool-downs, and the order is checked.
func rollingSQL(d database, coolDowns bool) func(*Site) (*setup, error) {
	build := rolling("sql", inDatabase(d))
	return func(s *Site) (*setup, error) {
		set, err := build(s)
		if err != nil {
			return nil, err
		}
		if set.unordered = coolDowns; !coolDowns {
			set.load = func(l *soak.Load) { l.Cool, l.AtLeast = 0, 0 }
		}
		return set, nil
	}
}
