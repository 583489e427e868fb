package fakes

import (
	"crypto/md5"
	"encoding/hex"
	"encoding/xml"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
)

// S3 is an object storage with one bucket, which knows conditional writes. As S3 does, it counts a
// write with If-Match to a missing object as one to a missing key. The lab tests s3store with other
// services, too.
type S3 struct {
	Bucket string

	mu      sync.Mutex
	objects map[string][]byte
}

func (s *S3) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	bucket, key, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	switch old, exists := s.objects[key]; {
	case bucket != s.Bucket:
		s3Error(w, http.StatusNotFound, "NoSuchBucket")
	case key == "":
		s.ofBucket(w, r)
	case r.Method == http.MethodPut && r.Header.Get("If-None-Match") == "*" && exists:
		s3Error(w, http.StatusPreconditionFailed, "PreconditionFailed")
	case (r.Method == http.MethodGet || r.Method == http.MethodPut && r.Header.Get("If-Match") != "") && !exists:
		s3Error(w, http.StatusNotFound, "NoSuchKey")
	case r.Method == http.MethodGet:
		w.Header().Set("ETag", etag(old))
		w.Write(old)
	case r.Method == http.MethodPut && r.Header.Get("If-Match") != "" && r.Header.Get("If-Match") != etag(old):
		s3Error(w, http.StatusPreconditionFailed, "PreconditionFailed")
	case r.Method == http.MethodPut:
		if s.objects == nil {
			s.objects = map[string][]byte{}
		}
		s.objects[key] = body
		w.Header().Set("ETag", etag(body))
	case r.Method == http.MethodDelete:
		delete(s.objects, key)
		w.WriteHeader(http.StatusNoContent)
	default:
		s3Error(w, http.StatusMethodNotAllowed, "MethodNotAllowed")
	}
}

// ofBucket answers a request about the bucket: a list, or a setting.
func (s *S3) ofBucket(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	switch {
	case q.Has("versioning"):
		io.WriteString(w, "<VersioningConfiguration/>")
	case q.Has("lifecycle"):
		s3Error(w, http.StatusNotFound, "NoSuchLifecycleConfiguration")
	case q.Get("list-type") == "2":
		const page = 1000
		keys := slices.Sorted(maps.Keys(s.objects))
		keys = slices.DeleteFunc(keys, func(k string) bool {
			return !strings.HasPrefix(k, q.Get("prefix")) || k <= q.Get("continuation-token")
		})
		fmt.Fprintf(w, "<ListBucketResult><IsTruncated>%v</IsTruncated>", len(keys) > page)
		if len(keys) > page {
			keys = keys[:page]
			io.WriteString(w, "<NextContinuationToken>")
			xml.EscapeText(w, []byte(keys[page-1]))
			io.WriteString(w, "</NextContinuationToken>")
		}
		for _, k := range keys {
			io.WriteString(w, "<Contents><Key>")
			xml.EscapeText(w, []byte(k))
			io.WriteString(w, "</Key></Contents>")
		}
		io.WriteString(w, "</ListBucketResult>")
	default:
		s3Error(w, http.StatusNotImplemented, "NotImplemented")
	}
}

func etag(data []byte) string {
	sum := md5.Sum(data)
	return `"` + hex.EncodeToString(sum[:]) + `"`
}

func s3Error(w http.ResponseWriter, status int, code string) {
	w.WriteHeader(status)
	fmt.Fprintf(w, "<Error><Code>%s</Code><Message>%[1]s</Message></Error>", code)
}
