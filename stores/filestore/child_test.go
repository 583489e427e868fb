//go:build linux

package filestore

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// childEnv names the script that this binary runs instead of tests.
const childEnv = "FILESTORE_TEST_CHILD"

// scripts has the scripts by name. Each of them runs in a separate process and gets a directory. If
// a script returns an error, the test that started it fails.
var scripts = map[string]func(dir string) error{}

func TestMain(m *testing.M) {
	name := os.Getenv(childEnv)
	if name == "" {
		os.Exit(m.Run())
	}
	if err := scripts[name](os.Args[1]); err != nil {
		fmt.Println("failed:", err)
		os.Exit(1)
	}
	fmt.Println("done")
	os.Exit(0)
}

// child is a process that runs a script.
type child struct {
	t   testing.TB
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
}

// start runs a script. edit, if not nil, may change the command.
func start(t testing.TB, script, dir string, edit func(*exec.Cmd)) *child {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", dir) // not by its path, which another user may be unable to reach
	cmd.Env = append(os.Environ(), childEnv+"="+script)
	cmd.Stderr = os.Stderr
	if edit != nil {
		edit(cmd)
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c := &child{t: t, cmd: cmd, in: in, out: bufio.NewScanner(out)}
	t.Cleanup(c.kill)
	return c
}

// expect reads one line of the child. The line must begin with want.
func (c *child) expect(want string) string {
	c.t.Helper()
	if !c.out.Scan() {
		c.t.Fatalf("the child ended, %q was expected: %v", want, c.out.Err())
	}
	if !strings.HasPrefix(c.out.Text(), want) {
		c.t.Fatalf("the child says %q, want %q", c.out.Text(), want)
	}
	return c.out.Text()
}

// end lets the child continue until its script is over.
func (c *child) end() {
	c.t.Helper()
	c.in.Close()
	c.expect("done")
	if err := c.cmd.Wait(); err != nil {
		c.t.Error(err)
	}
}

func (c *child) kill() {
	_ = c.cmd.Process.Kill()
	_ = c.cmd.Wait()
}

// pause ends when the parent closes the child's input.
func pause() { _, _ = io.Copy(io.Discard, os.Stdin) }

// asNobody runs the child as a user without rights. Only root can do that.
func asNobody(cmd *exec.Cmd) {
	if os.Geteuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	}
}

// check runs the steps one after the other until one fails.
func check(steps ...func() error) error {
	for i, step := range steps {
		if err := step(); err != nil {
			return fmt.Errorf("step %d: %w", i+1, err)
		}
	}
	return nil
}

var background = context.Background()
