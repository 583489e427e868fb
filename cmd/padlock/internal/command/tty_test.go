package command

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestTerminal runs the scripts of testdata/tty, in which a person works at a terminal, with a
// shell that has job control:
//
//	login               opens the terminal
//	shell LINE…         types a line when the shell is ready for one
//	type TEXT…          types a line for whoever reads it
//	press KEY…          presses keys, as tmux names them
//	[!] screen REGEXP   waits until the screen shows that, or does not
//	[!] styled REGEXP   the same with the control sequences for colours
//	resize COLUMNS ROWS changes the size of the terminal
func TestTerminal(t *testing.T) {
	tmux, err := exec.LookPath("tmux")
	switch {
	case runtime.GOOS != "linux":
		t.Skip("terminals are tested on Linux")
	case err != nil:
		missing(t, "tmux")
	}
	p := scripts("testdata/tty")
	p.Setup = func(env *testscript.Env) error {
		w := &window{tmux: tmux, socket: filepath.Join(env.WorkDir, "tmux"), output: filepath.Join(env.WorkDir, "terminal")}
		env.Values[windowKey{}] = w
		env.Defer(func() { _ = exec.Command(w.tmux, "-S", w.socket, "kill-server").Run() })
		return setUpScript(env)
	}
	for name, f := range map[string]func(*window, *testscript.TestScript, bool, []string){
		"login": (*window).login, "shell": (*window).shell, "type": (*window).typeLine, "press": (*window).press, "screen": (*window).screen,
		"styled": (*window).styled, "resize": (*window).resize,
	} {
		p.Cmds[name] = func(ts *testscript.TestScript, neg bool, args []string) {
			f(ts.Value(windowKey{}).(*window), ts, neg, args)
		}
	}
	testscript.Run(t, p)
}

type windowKey struct{}

// window is a terminal with a person at it.
type window struct {
	tmux, socket string
	output       string // the file that gets all output of the terminal

	prompts int // the number in the last prompt at which a line was typed
}

func (w *window) do(ts *testscript.TestScript, args ...string) string {
	c := exec.Command(w.tmux, append([]string{"-S", w.socket, "-f", os.DevNull}, args...)...)
	c.Dir = ts.MkAbs(".")
	for _, v := range []string{"PATH", "PADLOCK_STORE", "FAULTS", "GORACE", "HOME", "TMPDIR"} {
		c.Env = append(c.Env, v+"="+ts.Getenv(v))
	}
	c.Env = append(c.Env, "LC_ALL=C.UTF-8", `PS1=\#> `)
	out, err := c.CombinedOutput()
	if err != nil {
		ts.Fatalf("tmux %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

func (w *window) login(ts *testscript.TestScript, _ bool, _ []string) {
	w.do(ts, "new-session", "-d", "-x", "150", "-y", "50", "bash", "--norc", "--noprofile", "-i")
	w.do(ts, "pipe-pane", "cat >'"+w.output+"'")
}

// until waits until the screen is as wanted. It looks at the screen again when there was output.
func (w *window) until(ts *testscript.TestScript, what, form string, ok func(screen string) bool) {
	seen := int64(-1)
	until(ts, what, func() bool {
		size := int64(0)
		if st, err := os.Stat(w.output); err == nil {
			size = st.Size()
		}
		if size == seen {
			return false
		}
		seen = size
		return ok(w.do(ts, "capture-pane", "-p", form))
	})
}

// prompt matches a screen whose last line is a prompt with the number of the command.
var prompt = regexp.MustCompile(`(\d+)>\s*$`)

// shell does not type ahead: input may get lost while the shell sets up the terminal for a program
// or for itself. So it waits for a prompt with a number that it has not seen. On a busy machine the
// last prompt may still stand there, because the shell has not yet read the last line.
func (w *window) shell(ts *testscript.TestScript, neg bool, args []string) {
	w.until(ts, "the shell is ready", "-J", func(screen string) bool {
		m := prompt.FindStringSubmatch(screen)
		if m == nil {
			return false
		}
		number, err := strconv.Atoi(m[1])
		ts.Check(err)
		if number <= w.prompts {
			return false
		}
		w.prompts = number
		return true
	})
	w.typeLine(ts, neg, args)
}

func (w *window) typeLine(ts *testscript.TestScript, _ bool, args []string) {
	w.do(ts, "send-keys", "-l", strings.Join(args, " "))
	w.do(ts, "send-keys", "Enter")
}

func (w *window) press(ts *testscript.TestScript, _ bool, args []string) {
	w.do(ts, append([]string{"send-keys"}, args...)...)
}

func (w *window) resize(ts *testscript.TestScript, _ bool, args []string) {
	w.do(ts, "resize-window", "-x", args[0], "-y", args[1])
}

func (w *window) screen(ts *testscript.TestScript, neg bool, args []string) {
	w.shows(ts, neg, args[0], "-J")
}

func (w *window) styled(ts *testscript.TestScript, neg bool, args []string) {
	w.shows(ts, neg, args[0], "-e")
}

func (w *window) shows(ts *testscript.TestScript, neg bool, pattern, form string) {
	re, err := regexp.Compile("(?m)" + pattern)
	ts.Check(err)
	shown := ""
	defer func() { ts.Logf("[screen]\n%s", strings.TrimSpace(shown)) }()
	w.until(ts, "the screen shows "+pattern, form, func(screen string) bool {
		shown = screen
		return re.MatchString(shown) != neg
	})
}
