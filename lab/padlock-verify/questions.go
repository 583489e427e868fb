package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/padlock-go/padlock/lab/certificate"
)

// certification makes a certificate.
type certification struct {
	*verification
	paper *certificate.Certificate
	shown string          // the URL in the certificate
	early context.Context // ends with the first signal
	suite wires           // of the suite of the contract

	onBroke func(*certificate.Question) // is called for each question that broke; may be nil
}

func newCertification(v *verification, early context.Context) *certification {
	return &certification{verification: v, early: early, paper: &certificate.Certificate{
		Format: certificate.Format, Made: time.Now().UTC(), Padlock: commit(),
		Machine: machine(), For: v.span.String(),
		Service: []certificate.Fact{}, Promises: []string{}, Questions: []certificate.Question{},
	}}
}

// probePrefix is in front of the names of probes and of the suite. The soak looks for what is left
// behind of its own names, and must not find these.
func (c *certification) probePrefix() string { return c.base + "-probe:" }

// machine describes this machine, and says how busy it is if the system tells.
func machine() string {
	text := fmt.Sprintf("%s/%s, %d processors", runtime.GOOS, runtime.GOARCH, runtime.NumCPU())
	load, _ := os.ReadFile("/proc/loadavg") // empty where there is none
	if minute, _, ok := strings.Cut(string(load), " "); ok {
		text += ", load " + minute + " before"
	}
	return text
}

// commit returns the version of a release build, and the commit of which this program was built.
func commit() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return release
	}
	set := map[string]string{}
	for _, s := range info.Settings {
		set[s.Key] = s.Value
	}
	text := release
	if at := set["vcs.revision"]; at != "" {
		text = strings.TrimPrefix(release+", commit "+at, "of a source tree, ")
	}
	if set["vcs.modified"] == "true" {
		text += " with changes"
	}
	return text
}

func rounded(d time.Duration) float64 { return d.Round(10 * time.Millisecond).Seconds() }

// add asks a question, unless the certification was ended early, and notes how long it took.
func (c *certification) add(q certificate.Question, ask func(*certificate.Question) error) {
	if c.early.Err() != nil {
		c.skip(q, "the certification was ended before")
		return
	}
	began := time.Now()
	q.Verdict = certificate.Held
	q.Counts = map[string]int{}
	switch err := ask(&q); {
	case errors.Is(err, errors.ErrUnsupported):
		c.skip(q, "the store cannot tell")
		return
	case err != nil:
		broke(&q, err.Error())
	}
	q.Seconds = rounded(time.Since(began))
	c.note(q)
}

func (c *certification) skip(q certificate.Question, why string) {
	q.Verdict, q.Why = certificate.NotAsked, why
	c.note(q)
}

func (c *certification) note(q certificate.Question) {
	if q.Verdict == certificate.Broke {
		if c.onBroke != nil {
			c.onBroke(&q)
		}
		q.Repeat = cmp.Or(q.Repeat, fmt.Sprintf("padlock-verify --store '%s' --certify FILE --for %v", c.shown, c.span))
	}
	c.paper.Questions = append(c.paper.Questions, q)
}

// maxSeen is how many texts of a question say how it was broken, and maxSeenLength their length.
const (
	maxSeen       = 5
	maxSeenLength = 1000
)

func broke(q *certificate.Question, seen string) {
	q.Verdict = certificate.Broke
	if len(seen) > maxSeenLength {
		seen = strings.ToValidUTF8(seen[:maxSeenLength], "") + "…"
	}
	if len(q.Seen) < maxSeen {
		q.Seen = append(q.Seen, seen)
	}
}

func (c *certification) broken() (all []string) {
	for _, q := range c.paper.Questions {
		if q.Verdict == certificate.Broke {
			all = append(all, q.Name)
		}
	}
	return all
}
