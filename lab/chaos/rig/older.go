package rig

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/stores/filestore"
)

// olderCommit is the commit of the older padlock of the rows "older and newer padlock". Their workers
// run this commit's build and this tree's build on the same names. It is the first one that keeps all
// promises which the soak checks: a program before it forgets the HoldAtLeast of a name that a newer
// one hands over to it, or waits for slow connections of advisory locks. If a format changes on
// purpose so that an older padlock cannot work next to a newer one, raise it to the first commit with
// the new format, and say in docs/compatibility.md what users have to do. The commit has to stay in
// the history of the main branch.
const olderCommit = "cdc4710de34b1d7115587dcb0cd505e8e8539748"

// landedCommit is the commit of the older padlock of the rows "rolled out and back": the newest one of
// the main branch before this one. The commit after each landing raises it.
const landedCommit = "eb39ee97007046931129366c30d44385b19d9bf0"

// Programs that are built at a commit: folders of the tree.
const (
	chaosProgram   = "lab/chaos"
	padlockProgram = "cmd/padlock/padlock-all"
)

// buildCommit builds a program as it was at a commit and returns the path of the binary. The
// source comes from the git history of the clone in which the soak runs. Sites with the same
// [Options.Older] share the build, even if they are in different processes.
func (s *Site) buildCommit(commit, program string) string {
	root := got(git("rev-parse", "--show-toplevel")) // an older padlock is built from the git history
	if _, err := git("cat-file", "-e", commit+"^{commit}"); err != nil {
		must(fmt.Errorf("the older padlock is %s, which this clone does not have: fetch the whole history (git fetch --unshallow): %w", commit, err))
	}
	dir := cmp.Or(s.older, s.dir)
	must(os.MkdirAll(dir, 0o700))
	locker := padlock.New(got(filestore.Open(filepath.Join(dir, "locks"))))
	defer locker.Close(context.Background())
	source := filepath.Join(dir, path.Base(program)+"-"+commit)
	binary := source + ".bin"
	must(locker.Do(context.Background(), filepath.Base(source), func(context.Context) error {
		if _, err := os.Stat(binary); err == nil {
			return nil
		}
		return try(func() { buildSource(root, commit, program, source, binary) })
	}))
	return binary
}

// buildSource builds a program in a new directory. Without -trimpath, the build takes the
// packages of other modules from Go's cache, where the build of this tree has put them.
func buildSource(root, commit, program, dir, binary string) {
	must(os.RemoveAll(dir)) // what a build that failed has left
	must(os.Mkdir(dir, 0o700))
	source, built := dir+".tar", binary+".new"
	got(git("-C", root, "archive", "-o", source, commit))
	got(output(exec.Command("tar", "-xf", source, "-C", dir)))
	build := exec.Command("go", "build", "-buildvcs=false", "-o", built, ".")
	build.Dir = filepath.Join(dir, program)
	build.Env = append(os.Environ(), "GOWORK="+filepath.Join(dir, "go.work"), "GOFLAGS=")
	got(output(build))
	must(os.Rename(built, binary))
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
// worker of the other version. All workers use the same names.
func rolling(build func(*Site) (*setup, error)) func(*Site) (*setup, error) {
	return built(func(s *Site) *setup {
		s.mixed, s.oldest = true, true
		set, older := got(build(s)), s.buildCommit(olderCommit, chaosProgram)
		first, second := make([]string, s.Workers), make([]string, s.Workers) // "" means this program
		for id := range s.Workers {
			if id < s.Workers/2 {
				first[id] = older
			} else {
				second[id] = older
			}
		}
		set.faults = withoutWorld(set.faults)
		set.stages = slices.Repeat(set.stages[:1], 2)
		set.programs = [][]string{first, second}
		set.byAge()
		return set
	})
}

// byAge makes the row fail if the workers of one age get no locks.
func (set *setup) byAge() {
	set.kinds = []string{"this padlock", "the older one"}
	set.kindOf = func(_ int, other bool) string { return map[bool]string{false: set.kinds[0], true: set.kinds[1]}[other] }
}
