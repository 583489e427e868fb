// Package replay records what a service over HTTP answers to a store, and plays the answers again
// in a test that has no account. So the store meets the words of the true service in every run of
// the tests: the headers, the bodies of errors, the spelling of versions.
//
// A recording is a file. "padlock-verify --certify" makes it of a true service: those in docs/certified
// are called NAME-conversation.json. The store's TestRecorded makes it of the stand-in of the tests,
// with the variable PADLOCK_RECORD=stand-in. TestRecorded plays all of its kind.
//
// A recording has no secret: requests are kept as they were before they were signed, requests for a
// login are not kept, and of the headers only those in the lists below. The name of the bucket, table
// or namespace becomes "padlock-test", and the host of the endpoint "localhost".
package replay

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"sync"

	"github.com/padlock-go/padlock/storekit/overhttp"
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

// A recorder keeps what a service answers.
type recorder struct {
	public *strings.Replacer // replaces the names of the true place

	mu   sync.Mutex
	kept recording
}

// note keeps an exchange; see overhttp.Watch.
func (r *recorder) note(u *url.URL, q overhttp.Request, p overhttp.Reply) {
	e := &exchange{
		Asked:  r.public.Replace(asked(q.Method, u, func(name string) string { return q.Header[name] })),
		Sent:   masked([]byte(r.public.Replace(string(q.Body)))), // a name may look like chance
		Status: p.Status, Header: kept(p.Header, replyHeaders),
		Body: private.ReplaceAllString(r.public.Replace(string(p.Body)), ""),
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.kept.Exchanges = append(r.kept.Exchanges, e)
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
	ask, body := asked(q.Method, q.URL, q.Header.Get), masked(sent)
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
func asked(method string, u *url.URL, header func(name string) string) string {
	text := cmp.Or(method, http.MethodGet) + " /" + strings.TrimPrefix(u.RequestURI(), "/")
	for _, name := range requestHeaders {
		if value := header(name); value != "" {
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

// decode reads a file, and the URL of its place.
func decode(data []byte) (r *recording, at *url.URL, err error) {
	r = &recording{}
	if err = json.Unmarshal(data, r); err == nil {
		at, err = url.Parse(r.Place)
	}
	return r, at, err
}

func (r *recording) encode() ([]byte, error) {
	var text bytes.Buffer
	out := json.NewEncoder(&text)
	out.SetEscapeHTML(false)
	out.SetIndent("", "\t")
	err := out.Encode(r)
	return text.Bytes(), err
}
