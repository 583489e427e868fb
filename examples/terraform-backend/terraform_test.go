//go:build terraform

package main

import (
	"cmp"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TERRAFORM names the program, for example tofu.
func terraform(t *testing.T, dir string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), cmp.Or(os.Getenv("TERRAFORM"), "terraform"), args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CHECKPOINT_DISABLE=1", "TF_IN_AUTOMATION=1", "TF_CLI_ARGS=-no-color", "HOME="+dir)
	return cmd
}

func must(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v\n%s", cmd.Args, err, out)
	}
	return string(out)
}

// configure writes the configuration of a resource that changes with n. From the second one on,
// making it asks the server at the URL middle first.
func configure(t *testing.T, work, url, middle, n string) {
	t.Helper()
	config := `terraform {
  backend "http" {
    address        = "` + url + `/shop"
    lock_address   = "` + url + `/shop"
    unlock_address = "` + url + `/shop"
  }
}
resource "terraform_data" "a" {
  triggers_replace = "` + n + `"
  provisioner "local-exec" {
    command = "test ` + n + ` = 1 || curl -sS ` + middle + `"
  }
}
`
	if err := os.WriteFile(filepath.Join(work, "main.tf"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
}

// The backend together with a true Terraform: it applies, it is refused during another run, and
// force-unlock ends that run's right to write. See make test-terraform.
func TestTerraform(t *testing.T) {
	states := t.TempDir()
	_, url := here(t, states)
	work := t.TempDir()
	// In the middle of the work of a run, the program asks this server and waits for its answer.
	working, goOn := make(chan struct{}), make(chan struct{})
	middle := newServer(t, func(http.ResponseWriter, *http.Request) {
		working <- struct{}{}
		select {
		case <-goOn:
		case <-t.Context().Done():
		}
	})
	write := func(n string) { configure(t, work, url, middle, n) }
	write("1")
	must(t, terraform(t, work, "init"))
	must(t, terraform(t, work, "apply", "-auto-approve"))
	before, err := os.ReadFile(filepath.Join(states, "shop.tfstate"))
	if err != nil || !strings.Contains(string(before), "terraform_data") {
		t.Fatalf("%v: %s", err, before)
	}
	must(t, terraform(t, work, "plan"))
	write("2")
	run := make(chan string, 1)
	go func() {
		out, err := terraform(t, work, "apply", "-auto-approve").CombinedOutput()
		if err == nil {
			out = append(out, "\nit succeeded"...)
		}
		run <- string(out)
	}()
	<-working
	out, err := terraform(t, work, "apply", "-auto-approve").CombinedOutput()
	m := regexp.MustCompile(`locked:\s+ID=(\S+)`).FindSubmatch(out)
	if err == nil || m == nil {
		t.Fatalf("the second run: %v\n%s", err, out)
	}
	must(t, terraform(t, work, "force-unlock", "-force", string(m[1])))
	close(goOn)
	if out := <-run; strings.Contains(out, "it succeeded") || !strings.Contains(out, "409") {
		t.Errorf("the run that lost its lock: %s", out)
	}
	if after, err := os.ReadFile(filepath.Join(states, "shop.tfstate")); err != nil || string(after) != string(before) {
		t.Errorf("the state after it: %v\n%s", err, after)
	}
}

func newServer(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	return srv.URL
}
