// Package aws has what stores in services of Amazon share: the signature of a request, the access
// keys of the last while, and the region that the tools of AWS would use. It is for authors of
// stores. Programs that use locks do not need it.
package aws

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// A Key is an access key. Google means an HMAC key of Google Cloud Storage, with which Sign signs by
// GOOG4-HMAC-SHA256: the same steps with other names.
type Key struct {
	ID     string
	Google bool
	texts  func() (secret, session string) // a func, so that nothing which prints a Key shows them
}

// NewKey returns a key of Amazon. session is empty for a lasting key.
func NewKey(id, secret, session string) Key {
	return Key{ID: id, texts: func() (string, string) { return secret, session }}
}

// Texts returns the secret texts of the key. They are empty in a Key that NewKey has not made.
func (k Key) Texts() (secret, session string) {
	if k.texts == nil {
		return "", ""
	}
	return k.texts()
}

// Sign signs a request with a body, by AWS Signature Version 4. All headers that the request has by
// then are signed, except for Content-Type. The path must have only characters that need no
// escape, or that package net/url escapes as AWS does.
func Sign(q *http.Request, body []byte, k Key, region, service string) {
	secret, session := k.Texts()
	now := time.Now().UTC().Format("20060102T150405Z")
	vendor, header := "AWS4", "X-Amz-"
	if k.Google {
		vendor, header = "GOOG4", "X-Goog-"
	}
	q.Header.Set(header+"Date", now)
	q.Header.Set(header+"Content-Sha256", sum(body))
	if session != "" {
		q.Header.Set("X-Amz-Security-Token", session)
	}
	headers, names := canonicalHeaders(q)
	query := strings.ReplaceAll(q.URL.Query().Encode(), "+", "%20")
	request := strings.Join([]string{q.Method, q.URL.EscapedPath(), query, headers, names, sum(body)}, "\n")
	scope := now[:8] + "/" + region + "/" + service + "/" + strings.ToLower(vendor) + "_request"
	key := []byte(vendor + secret)
	for part := range strings.SplitSeq(scope, "/") {
		key = mac(key, part)
	}
	signature := mac(key, vendor+"-HMAC-SHA256\n"+now+"\n"+scope+"\n"+sum([]byte(request)))
	q.Header.Set("Authorization", vendor+"-HMAC-SHA256 Credential="+k.ID+"/"+scope+", SignedHeaders="+names+", Signature="+hex.EncodeToString(signature))
}

// canonicalHeaders returns the signed headers, a line each, and their names.
func canonicalHeaders(q *http.Request) (lines, names string) {
	host := q.Host
	if host == "" {
		host = q.URL.Host
	}
	all := []string{"host:" + host}
	for name, values := range q.Header {
		if name != "Content-Type" && name != "Authorization" {
			all = append(all, strings.ToLower(name)+":"+strings.Join(values, ","))
		}
	}
	slices.Sort(all)
	var sorted []string
	for _, line := range all {
		name, _, _ := strings.Cut(line, ":")
		sorted = append(sorted, name)
	}
	return strings.Join(all, "\n") + "\n", strings.Join(sorted, ";")
}

func sum(data []byte) string {
	s := sha256.Sum256(data)
	return hex.EncodeToString(s[:])
}

func mac(key []byte, text string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(text))
	return h.Sum(nil)
}

// Region returns the region in the environment, or in the profile of the configuration file of the
// tools of AWS, or "".
func Region() string {
	for _, name := range []string{"AWS_REGION", "AWS_DEFAULT_REGION"} {
		if region := os.Getenv(name); region != "" {
			return region
		}
	}
	file, profile := os.Getenv("AWS_CONFIG_FILE"), os.Getenv("AWS_PROFILE")
	if home, err := os.UserHomeDir(); err == nil && file == "" {
		file = filepath.Join(home, ".aws", "config")
	}
	if profile == "" {
		profile = "default"
	}
	data, _ := os.ReadFile(file) // a missing file is usual
	inside := false
	for line := range strings.Lines(string(data)) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "[") {
			section := strings.TrimSpace(strings.Trim(line, "[]"))
			inside = strings.TrimSpace(strings.TrimPrefix(section, "profile ")) == profile
		} else if name, value, ok := strings.Cut(line, "="); ok && inside && strings.TrimSpace(name) == "region" {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
