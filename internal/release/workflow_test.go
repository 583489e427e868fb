package main

import (
	"os"
	"strings"
	"testing"
)

// Code of others is built and run in the workflow. It must not see the signing key or a token that
// may write. So a job with either checks out nothing, and calls nothing of this tree.
func TestWorkflowKeepsTheKey(t *testing.T) {
	text, err := os.ReadFile("../../.github/workflows/release.yml")
	if err != nil {
		t.Fatal(err)
	}
	head, rest, found := strings.Cut(string(text), "\njobs:\n")
	if !found || strings.Contains(head, "write") || strings.Contains(head, "secrets.") {
		t.Errorf("all jobs have what only one needs:\n%s", head)
	}
	var jobs []string
	for _, line := range strings.SplitAfter(rest, "\n") {
		if strings.HasPrefix(line, "  ") && !strings.HasPrefix(line, "   ") {
			jobs = append(jobs, "")
		}
		jobs[len(jobs)-1] += line
	}
	trusted := 0
	for _, job := range jobs {
		if strings.Contains(job, "secrets.") || strings.Contains(job, "write") {
			trusted++
			for _, word := range []string{"checkout", "setup-go", "make ", ".ci/", "sudo"} {
				if strings.Contains(job, word) {
					t.Errorf("the job with the key or the right to publish has %q:\n%s", word, job)
				}
			}
		}
		steps := strings.Split(job, "\n      - ")
		for _, step := range steps[1:] {
			if strings.Contains(step, "checkout") && !strings.Contains(step, "persist-credentials: false") {
				t.Errorf("the token stays in the tree:\n%s", step)
			}
			if strings.Contains(step, "secrets.") && !strings.Contains(step, "ssh-keygen -q -Y sign") {
				t.Errorf("a step that does not sign has the key:\n%s", step)
			}
		}
	}
	if trusted != 1 {
		t.Errorf("%d jobs have the key or the right to publish", trusted)
	}
}
