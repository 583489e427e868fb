package command

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/spf13/cobra"

	"github.com/padlock-go/padlock/internal/server"
)

// haveKeys gives an example a key in $key and another in deploy.key.
const haveKeys = `key=$(padlock acquire --ttl 50s example-1); padlock acquire --key-file deploy.key example-2`

// examples describes how the examples in the help of a verb are tested: line by line, each after
// the same preparation, or as one script.
var examples = map[string]struct {
	whole, leases bool
	before        string
	elsewhere     string // why they are not tried here
}{
	"padlock":            {whole: true},
	"padlock run":        {},
	"padlock acquire":    {whole: true, leases: true},
	"padlock extend":     {leases: true, before: haveKeys},
	"padlock adopt":      {leases: true, before: haveKeys},
	"padlock release":    {leases: true, before: haveKeys},
	"padlock key":        {leases: true, before: haveKeys + "; padlock key --token --key-file deploy.key >token"},
	"padlock status":     {before: "jq() { cat; }"},
	"padlock ls":         {before: "jq() { cat; }"},
	"padlock top":        {before: "jq() { cat; }"},
	"padlock history":    {elsewhere: "one writes to a place of root; testdata/script/history.txtar"},
	"padlock serve":      {elsewhere: "they do not end by themselves; serve_test.go"},
	"padlock completion": {elsewhere: "they write to places of root; testdata/script/complete.txtar"},
	"padlock version":    {before: "jq() { cat; }"},
	"padlock man":        {before: `man() { cat; }`},
	"padlock report":     {},
	"padlock ask":        {before: "systemctl() { :; }"},
	"padlock break":      {elsewhere: "the fence is one that somebody read; testdata/redis/break.txtar"},
	"padlock stores":     {elsewhere: "one asks a server; testdata/script/stores.txtar"},
	"padlock doctor":     {elsewhere: "they need a server with TLS, and half a minute; testdata/doctor"},
	"padlock schema":     {elsewhere: "they name servers; testdata/script/schema.txtar"},
}

// TestHelpExamples runs the examples in the help as they are written, on the default kind of store,
// or on Redis if they need leases.
func TestHelpExamples(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the examples use a Unix shell")
	}
	dir := t.TempDir()
	for _, c := range withExamples((&app{program: whole()}).root()) {
		how, known := examples[c.CommandPath()]
		if !known {
			t.Errorf("the examples of %q are in no row of the table", c.CommandPath())
			continue
		}
		if how.elsewhere != "" {
			continue
		}
		lines := []string{c.Example}
		if !how.whole {
			lines = strings.Split(c.Example, "\n")
		}
		for i, text := range lines {
			name := fmt.Sprintf("%s-%d.txtar", strings.ReplaceAll(c.CommandPath(), " ", "-"), i)
			if text = strings.TrimSpace(text); text == "" || strings.HasPrefix(text, "#") && !how.whole {
				continue
			}
			text = strings.NewReplacer("/usr/local/share/man/man1/", "./", "/var/lib/node_exporter/", "./").Replace(text)
			script := "exec sh -e example.sh\n-- example.sh --\n" + stubs + how.before + "\n" + text + "\n"
			if how.leases {
				script = "env PADLOCK_STORE=$REDIS\n" + script
			}
			if err := os.WriteFile(filepath.Join(dir, name), []byte(script), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	url := server.Redis(t, server.RedisOptions{}).URL()
	p := scripts(dir)
	p.Setup = func(env *testscript.Env) error {
		env.Setenv("REDIS", url+"?prefix="+filepath.Base(env.WorkDir)+":")
		return setUpScript(env)
	}
	testscript.Run(t, p)
}

// stubs are the programs that examples run, and replacements for places that belong to root.
const stubs = `mkdir bin; PATH=$PWD/bin:$PATH; printf '#!/bin/sh\ncat >mailed\n' >bin/mail; chmod +x bin/mail
for f in report build deploy search rebuild backup encode; do printf '#!/bin/sh\n' >$f.sh; chmod +x $f.sh; done
padlock() { set -- "$@"; case "$*" in *file:///var/lib/*) return 0;; esac; command padlock "$@"; }
`

func withExamples(c *cobra.Command) (found []*cobra.Command) {
	if c.Example != "" {
		found = append(found, c)
	}
	for _, sub := range c.Commands() {
		found = append(found, withExamples(sub)...)
	}
	return found
}
