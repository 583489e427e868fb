// Package replay records what a service over HTTP answers to a store, and plays the answers again
// in a test that has no account. So the store meets the words of the true service in every run of
// the tests: the headers, the bodies of errors, the spelling of versions.
//
// A recording is a file in testdata, made by a run of the store's TestRecorded with the variable
// PADLOCK_RECORD. Its value is the URL of an empty place in the true service, to which the
// environment has the login, or the word stand-in:
//
//	PADLOCK_RECORD='s3://my-bucket/padlock-test/?region=eu-central-1' go test -run TestRecorded ./stores/s3store
//
// Another service of the same kind gets a file of its own: with PADLOCK_RECORD_AS=r2 the recording is
// s3-r2.json. TestRecorded plays all files of its kind.
//
// A recording has no secret: of the headers it keeps only those in the lists below. The name of the
// bucket, table or namespace becomes "padlock-test", and the host of the endpoint "localhost".
package replay

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"sync"
)

// variable is the variable of the environment that asks for a new recording, and nameVariable has the
// name of its service, if it is not the one of Test.File.
const (
	variable     = "PADLOCK_RECORD"
	nameVariable = "PADLOCK_RECORD_AS"
)

// place is what stands in a recording for the bucket, table or namespace, and host for the endpoint.
const (
	place = "padlock-test"
	host  = "localhost"
)

var (
	requestHeaders = []string{"If-Match", "If-None-Match", "X-Goog-If-Generation-Match", "X-Amz-Target"}
	replyHeaders   = []string{"Date", "Etag", "Content-Type", "X-Goog-Generation", "X-Amz-Bucket-Region", "Retry-After"}

	// private matches what replies say about the account and about single requests.
	private = regexp.MustCompile(`(?s)<(Owner|HostId|RequestId|AWSAccessKeyId|Resource)>.*?</\w+>`)
	// chance matches what differs from run to run: times, numbers, hashes of tokens.
	chance = regexp.MustCompile(`[0-9A-Za-z_-]{20,}|[0-9A-Z]{13}|-?[0-9]+`)
)

// A recording is the content of a file.
type recording struct {
	Place     string      `json:"place"` // the URL of the place, with another name
	Exchanges []*exchange `json:"exchanges"`
}

// An exchange is one request and its reply.
type exchange struct {
	Asked string `json:"asked"` // the method, the path, the query, and the headers that say a condition
	Sent  string `json:"sent"`  // the body, without what chance matches

	// The reply:
	Status int               `json:"status"`
	Header map[string]string `json:"header"`
	Body   string            `json:"body"`

	played bool
}

// A recorder is a transport that sends requests to a service, and keeps what it answers.
type recorder struct {
	next   http.RoundTripper
	public *strings.Replacer // replaces the names of the true place

	mu   sync.Mutex
	kept recording
}

func (r *recorder) RoundTrip(q *http.Request) (*http.Response, error) {
	sent, err := bodyOf(q)
	if err != nil {
		return nil, err
	}
	p, err := r.next.RoundTrip(q)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(p.Body)
	if err != nil {
		return nil, err
	}
	p.Body = io.NopCloser(bytes.NewReader(body))
	e := &exchange{Asked: asked(q), Sent: masked(sent), Status: p.StatusCode, Header: kept(p.Header, replyHeaders), Body: private.ReplaceAllString(string(body), "")}
	for _, text := range []*string{&e.Asked, &e.Sent, &e.Body} {
		*text = r.public.Replace(*text)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.kept.Exchanges = append(r.kept.Exchanges, e)
	return p, nil
}

// A player is a transport that answers requests from a recording. Equal requests get their replies
// in the order of the recording. Other requests may come in another order.
type player struct {
	mu   sync.Mutex
	kept recording
}

func (p *player) RoundTrip(q *http.Request) (*http.Response, error) {
	sent, err := bodyOf(q)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	ask, body := asked(q), masked(sent)
	for _, e := range p.kept.Exchanges {
		if e.played || e.Asked != ask || e.Sent != body {
			continue
		}
		e.played = true
		w := httptest.NewRecorder()
		for name, value := range e.Header {
			w.Header().Set(name, value)
		}
		w.WriteHeader(e.Status)
		w.WriteString(e.Body)
		return w.Result(), nil
	}
	return nil, fmt.Errorf("the recording has no reply (any more) to %s with the body %s", ask, body)
}

// rest returns the requests of the recording that were not sent.
func (p *player) rest() (all []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range p.kept.Exchanges {
		if !e.played {
			all = append(all, e.Asked)
		}
	}
	return all
}

// asked describes a request, without its body and its host.
func asked(q *http.Request) string {
	text := q.Method + " " + q.URL.RequestURI()
	for _, name := range requestHeaders {
		if value := q.Header.Get(name); value != "" {
			text += " " + name + ": " + value
		}
	}
	return text
}

func masked(body []byte) string { return chance.ReplaceAllString(string(body), "…") }

func bodyOf(q *http.Request) ([]byte, error) {
	if q.Body == nil {
		return nil, nil
	}
	body, err := io.ReadAll(q.Body)
	q.Body = io.NopCloser(bytes.NewReader(body))
	return body, err
}

func kept(h http.Header, names []string) map[string]string {
	out := map[string]string{}
	for _, name := range names {
		if value := h.Get(name); value != "" {
			out[name] = value
		}
	}
	return out
}

func read(file string) (r recording, err error) {
	text, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	return r, err
}

func write(file string, r recording) error {
	var text bytes.Buffer
	out := json.NewEncoder(&text)
	out.SetEscapeHTML(false)
	out.SetIndent("", "\t")
	if err := out.Encode(r); err != nil {
		return err
	}
	return os.WriteFile(file, text.Bytes(), 0o644)
}
