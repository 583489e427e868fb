// Package certificate is the file of padlock-verify --certify: what a service was asked, and what it
// did. docs/certified.md is made of such files.
package certificate

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

// Format is the version of the file. A change that makes older readers wrong raises it.
const Format = 1

// Verdict is the result of a question, or of all of them.
type Verdict string

const (
	Held     Verdict = "held"      // the service did what was asked
	Broke    Verdict = "broke"     // it did not; Question.Seen says how
	NotAsked Verdict = "not asked" // Question.Why says why
)

// A Certificate is what a service was asked, and what it did. It contains no secret.
type Certificate struct {
	Format    int        `json:"format"`
	Kind      string     `json:"kind"`     // the kind of store, such as "redis"
	URL       string     `json:"url"`      // without a user, a password and parameters
	Verdict   Verdict    `json:"verdict"`  // broke if one question has that verdict
	Made      time.Time  `json:"made"`     // in UTC
	Seconds   float64    `json:"seconds"`  // how long all questions took
	Padlock   string     `json:"padlock"`  // the version or the commit of the program
	Machine   string     `json:"machine"`  // of the program, not of the service
	For       string     `json:"for"`      // how long the soak was to take; "" in files of older programs
	Names     string     `json:"names"`    // is in all names that the questions used
	Left      string     `json:"left"`     // what stays in the service for longer than some minutes
	Service   []Fact     `json:"service"`  // what the service says about itself
	Promises  []string   `json:"promises"` // of the store for this service
	Questions []Question `json:"questions"`
}

// A Fact is what the service says about itself.
type Fact struct {
	Name   string `json:"name"`
	Value  string `json:"value"`
	Advice string `json:"advice,omitempty"` // what an operator should do: the verdict is for this setting
}

// A Question is one rule, and how the service was seen to obey it.
type Question struct {
	Name    string         `json:"name"`
	Asked   string         `json:"asked"`
	Verdict Verdict        `json:"verdict"`
	Seen    []string       `json:"seen,omitempty"`    // how the rule was broken, a line for each case
	Repeat  string         `json:"repeat,omitempty"`  // the command that asks again
	Why     string         `json:"why,omitempty"`     // why the question was not asked
	Counts  map[string]int `json:"counts,omitempty"`  // what was done: rounds, writers, grants, …
	Seconds float64        `json:"seconds,omitempty"` // how long it took
}

// Version returns the version of the service as it says it, or "".
func (c *Certificate) Version() string {
	for _, f := range c.Service {
		if f.Name == "server" || f.Name == "version" {
			return f.Value
		}
	}
	return ""
}

// service returns the kind of store and the version of the service.
func (c *Certificate) service() string { return strings.TrimSpace(c.Kind + " " + c.Version()) }

// Conditions returns the facts with an advice, except those for which a question broke, which says the
// same.
func (c *Certificate) Conditions() (all []Fact) {
	for _, f := range c.Service {
		broke := slices.ContainsFunc(c.with(Broke), func(q *Question) bool { return q.Name == "settings/"+f.Name })
		if f.Advice != "" && !broke {
			all = append(all, f)
		}
	}
	return all
}

func (c *Certificate) with(v Verdict) (all []*Question) {
	for i := range c.Questions {
		if c.Questions[i].Verdict == v {
			all = append(all, &c.Questions[i])
		}
	}
	return all
}

// Judge sets the verdict of the whole from those of the questions.
func (c *Certificate) Judge() {
	c.Verdict = NotAsked
	for i := range c.Questions {
		switch c.Questions[i].Verdict {
		case Broke:
			c.Verdict = Broke
			return
		case Held:
			c.Verdict = Held
		}
	}
}

// MinFor is the shortest time for which a certificate should be made. With less, a fault of one write
// in a thousand was missed.
const MinFor = 30 * time.Second

// Short reports whether the certificate was made in less than MinFor.
func (c *Certificate) Short() bool {
	span, err := time.ParseDuration(c.For)
	return err == nil && span < MinFor
}

const sumKey = "sha256"

// sum returns the hash of a file's members without the hash itself. The members are sorted by name
// and written without blanks, so that other programs can compute the same.
func sum(members map[string]any) (string, error) {
	delete(members, sumKey)
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(members); err != nil {
		return "", err
	}
	hash := sha256.Sum256(bytes.TrimSuffix(b.Bytes(), []byte("\n")))
	return hex.EncodeToString(hash[:]), nil
}

// membersOf reads an object with its numbers as they are written.
func membersOf(data []byte) (members map[string]any, err error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	if err = d.Decode(&members); err == nil && d.More() {
		err = errors.New("there is more than one object")
	}
	return members, err
}

// Encode returns the file.
func (c *Certificate) Encode() ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", " ")
	if err := e.Encode(c); err != nil {
		return nil, err
	}
	members, err := membersOf(b.Bytes())
	if err != nil {
		return nil, err
	}
	hash, err := sum(members)
	if err != nil {
		return nil, err
	}
	return fmt.Appendf(bytes.TrimSuffix(b.Bytes(), []byte("\n}\n")), ",\n \"%s\": \"%s\"\n}\n", sumKey, hash), nil
}

// Decode reads a file, and returns an error if it was changed since it was written.
func Decode(data []byte) (*Certificate, error) {
	members, err := membersOf(data)
	if err != nil {
		return nil, fmt.Errorf("it is no certificate: %w", err)
	}
	told, _ := members[sumKey].(string)
	hash, err := sum(members)
	switch {
	case err != nil:
		return nil, err
	case told == "":
		return nil, errors.New("it is no certificate: it has no " + sumKey)
	case told != hash:
		return nil, fmt.Errorf("it was changed after it was made: its %s is %s and says %s", sumKey, hash, told)
	}
	c := &Certificate{}
	if err := json.Unmarshal(data, c); err != nil {
		return nil, fmt.Errorf("it is no certificate: %w", err)
	}
	if c.Format != Format {
		return nil, fmt.Errorf("it has format %d, and this program reads %d", c.Format, Format)
	}
	return c, nil
}

// Read reads a file; see Decode.
func Read(path string) (*Certificate, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	c, err := Decode(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return c, nil
}
