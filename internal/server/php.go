package server

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// PHPNeeds is what a script needs besides PHP.
type PHPNeeds struct {
	Extension string   // of PHP, such as "pdo_pgsql"
	Symfony   []string // components of Debian's Symfony, such as "Lock"
}

// PHP is a PHP process that reads lines and answers each of them with one line.
type PHP struct {
	t   testing.TB
	in  io.Writer
	out *bufio.Scanner
}

// StartPHP starts a script. The process ends with the test. If PHP or something that the script
// needs is missing, the test is skipped. In CI it fails instead. A script can need an extension of
// PHP and components of Symfony.
func StartPHP(t testing.TB, needs PHPNeeds, script string, args ...string) *PHP {
	t.Helper()
	if err := needs.check(); err != nil {
		missing(t, fmt.Errorf("php with %s and Symfony's components %q is missing: %w", needs.Extension, needs.Symfony, err))
	}
	cmd := exec.Command("php", append([]string{script}, args...)...)
	cmd.Stderr = os.Stderr
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
	t.Cleanup(func() {
		// Ignore the errors: Kill fails if the process has already ended, and Wait reports that the
		// process was killed.
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return &PHP{t, in, bufio.NewScanner(out)}
}

func (n PHPNeeds) check() error {
	for _, component := range n.Symfony {
		if _, err := os.Stat(filepath.Join("/usr/share/php/Symfony/Component", component, "autoload.php")); err != nil {
			return err
		}
	}
	return exec.Command("php", "-r", "exit(extension_loaded($argv[1]) ? 0 : 1);", n.Extension).Run()
}

// Send sends a line.
func (p *PHP) Send(line string) {
	p.t.Helper()
	if _, err := fmt.Fprintln(p.in, line); err != nil {
		p.t.Fatalf("%s: PHP does not read it: %v", line, err)
	}
}

// Expect reads one line that PHP answers, and checks it.
func (p *PHP) Expect(want string) {
	p.t.Helper()
	p.expect(want, "an answer")
}

func (p *PHP) expect(want, about string) {
	p.t.Helper()
	if !p.out.Scan() || p.out.Text() != want {
		p.t.Fatalf("%s: PHP says %q, %v; want %q", about, p.out.Text(), p.out.Err(), want)
	}
}

// Ask sends a line and checks the answer.
func (p *PHP) Ask(want, line string) {
	p.t.Helper()
	p.Send(line)
	p.expect(want, line)
}
