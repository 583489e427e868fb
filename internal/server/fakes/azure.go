package fakes

import (
	"encoding/xml"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
)

// mark begins every XML document of Azure: the byte order mark.
const mark = "\ufeff"

// Azure is as much of Azure Blob Storage as s3store uses, with one container, whose account stands
// in the path. As Azure may do, it drops dots at the end of a key. It checks no signature.
type Azure struct {
	Mu       sync.Mutex // guards the other fields
	Blobs    map[string]Blob
	Versions bool // it keeps old versions, and gives a version to each blob that is written from now on
	Page     int  // how many keys one page of a list has

	at     string // the path of the container
	writes int
}

// A Blob is an object.
type Blob struct {
	Data    []byte
	ETag    string
	Version string
}

// NewAzure returns a service with an empty container.
func NewAzure(account, container string) *Azure {
	return &Azure{Blobs: map[string]Blob{}, Page: 1000, at: "/" + account + "/" + container}
}

// ServeHTTP carries out a request.
func (f *Azure) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.Mu.Lock()
	defer f.Mu.Unlock()
	query := r.URL.Query()
	key, inside := strings.CutPrefix(r.URL.Path, f.at+"/")
	key = strings.TrimRight(key, ".")
	_, exists := f.Blobs[key]
	switch {
	case r.Header.Get("X-Ms-Version") == "" || r.Header.Get("X-Ms-Date") == "":
		deny(w, http.StatusBadRequest, "MissingRequiredHeader")
	case r.Header.Get("Authorization") == "" && !query.Has("sig"):
		deny(w, http.StatusUnauthorized, "NoAuthenticationInformation")
	case r.Method == http.MethodGet && r.URL.Path == f.at && query.Get("restype") == "container" && query.Get("comp") == "list":
		f.list(w, query.Get("prefix"), query.Get("marker"))
	case !inside || key == "":
		deny(w, http.StatusNotFound, "ContainerNotFound")
	case r.Method == http.MethodPut:
		f.put(w, r, key)
	case r.Method != http.MethodGet:
		deny(w, http.StatusMethodNotAllowed, "UnsupportedHttpVerb")
	case !exists:
		deny(w, http.StatusNotFound, "BlobNotFound")
	default:
		f.show(w, key)
		w.Write(f.Blobs[key].Data)
	}
}

// show sends the version of a blob.
func (f *Azure) show(w http.ResponseWriter, key string) {
	w.Header().Set("ETag", f.Blobs[key].ETag)
	if version := f.Blobs[key].Version; version != "" {
		w.Header().Set("X-Ms-Version-Id", version)
	}
}

func (f *Azure) put(w http.ResponseWriter, r *http.Request, key string) {
	blob, exists := f.Blobs[key]
	match, none := r.Header.Get("If-Match"), r.Header.Get("If-None-Match")
	body, err := io.ReadAll(r.Body)
	switch {
	case err != nil || r.Header.Get("X-Ms-Blob-Type") != "BlockBlob" || r.Header.Get("X-Ms-Blob-Cache-Control") != "no-store":
		deny(w, http.StatusBadRequest, "InvalidHeaderValue")
	case none == "*" && exists:
		deny(w, http.StatusConflict, "BlobAlreadyExists")
	case match != "" && match != blob.ETag:
		deny(w, http.StatusPreconditionFailed, "ConditionNotMet")
	default:
		f.writes++
		blob = Blob{Data: body, ETag: fmt.Sprintf(`"0x%015X"`, 0x8DE000000000000+f.writes)}
		if f.Versions {
			blob.Version = fmt.Sprintf("2026-11-23T15:00:00.%07dZ", f.writes)
		}
		f.Blobs[key] = blob
		f.show(w, key)
		w.WriteHeader(http.StatusCreated)
	}
}

func (f *Azure) list(w http.ResponseWriter, prefix, marker string) {
	type blob struct{ Name string }
	var page struct {
		XMLName    xml.Name `xml:"EnumerationResults"`
		Blobs      []blob   `xml:"Blobs>Blob"`
		NextMarker string
	}
	for _, key := range slices.Sorted(maps.Keys(f.Blobs)) {
		switch {
		case !strings.HasPrefix(key, prefix) || key < marker:
		case len(page.Blobs) == f.Page:
			page.NextMarker = key
		default:
			page.Blobs = append(page.Blobs, blob{key})
		}
		if page.NextMarker != "" {
			break
		}
	}
	text, err := xml.Marshal(page)
	if err != nil {
		panic(err)
	}
	io.WriteString(w, mark+xml.Header+string(text))
}

// deny sends an error of Azure.
func deny(w http.ResponseWriter, status int, code string) {
	w.Header().Set("X-Ms-Error-Code", code)
	w.WriteHeader(status)
	fmt.Fprintf(w, mark+`<?xml version="1.0" encoding="utf-8"?><Error><Code>%s</Code><Message>as the fake says</Message></Error>`, code)
}
