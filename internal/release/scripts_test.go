package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/padlock-go/padlock/internal/server"
)

// runScript runs a script of the packages on a machine whose systemctl and rm only note how they
// are called. systemctl reports the version and fails otherwise. The result is what the script
// printed, and the calls.
func runScript(t *testing.T, name, version string, args ...string) (printed, calls string) {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("the packages are for Linux")
	}
	dir := t.TempDir()
	script, err := os.ReadFile("files/" + name)
	note := "#!/bin/sh\necho ${0##*/} $* >>" + dir + "/calls\n"
	err = errors.Join(err,
		server.WriteProgram(dir+"/rm", []byte(note)),
		server.WriteProgram(dir+"/systemctl", []byte(note+"test \"$1\" = --version && echo 'systemd "+version+" ('")),
		os.WriteFile(dir+"/script", []byte(strings.ReplaceAll(string(script), "/run/systemd/system", dir)), 0o600))
	if err != nil {
		t.Fatal(err)
	}
	sed, err := exec.LookPath("sed")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(sed, filepath.Join(dir, "sed")); err != nil {
		t.Fatal(err)
	}
	c := exec.Command("/bin/sh", append([]string{dir + "/script"}, args...)...)
	c.Env = []string{"PATH=" + dir}
	out, err := c.CombinedOutput()
	if err != nil {
		t.Errorf("%s %q: %v\n%s", name, args, err, out)
	}
	called, _ := os.ReadFile(dir + "/calls") // without calls there is no file
	return string(out), string(called)
}

// The units use %d, which systemd has since version 251.
func TestPostinstallNamesSystemd(t *testing.T) {
	for version, warned := range map[string]bool{"249": true, "250.4-1": true, "251": false, "252.39-1~deb12u1": false, "": false} {
		printed, _ := runScript(t, "postinstall", version, "configure")
		if strings.Contains(printed, "251") != warned {
			t.Errorf("systemd %s: %q", version, printed)
		}
	}
}

// /var/lib/padlock also has the locks of root's other programs, which may be held. Only what the
// packages have put on the machine is removed.
func TestPurgeLeavesLocks(t *testing.T) {
	for args, want := range map[string]string{"purge": "rm -rf /etc/padlock\n", "remove": "", "upgrade 1.2.3": "", "0": "", "1": ""} {
		_, calls := runScript(t, "postremove", "252", strings.Fields(args)...)
		if want += "systemctl daemon-reload\n"; calls != want {
			t.Errorf("%s: %q, want %q", args, calls, want)
		}
	}
}

// runScript reports a script that fails because systemctl does.
func TestPreremoveStopsUnits(t *testing.T) {
	for args, stopped := range map[string]bool{"remove": true, "0": true, "upgrade 1.2.3": false, "1": false} {
		_, calls := runScript(t, "preremove", "252", strings.Fields(args)...)
		if strings.Contains(calls, "systemctl stop padlock-serve.service") != stopped || strings.Contains(calls, "rm -f ") != stopped {
			t.Errorf("%s: %q", args, calls)
		}
	}
}
