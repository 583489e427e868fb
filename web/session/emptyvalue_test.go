package session_test

import (
	"net/http"
	"testing"

	"github.com/padlock-go/padlock/web/session"
)

// raw is a Codec of byte strings.
type raw struct{}

func (raw) Marshal(v any) ([]byte, error)         { return v.([]byte), nil }
func (raw) Unmarshal(data []byte, into any) error { *into.(*[]byte) = data; return nil }

// A value that a Codec encodes as no bytes at all is a value: Take finds it.
func TestTakeOfAnEmptyValue(t *testing.T) {
	for name, open := range stores {
		t.Run(name, func(t *testing.T) {
			m := newManager(t, open(), session.ValueCodec(raw{}))
			c := serve(t, routes{
				"/put": func(w http.ResponseWriter, r *http.Request) {
					must[int](t)(0, session.From(r.Context()).Put("a", []byte(nil)))
				},
				"/take": func(w http.ResponseWriter, r *http.Request) {
					if _, found, err := session.Take[[]byte](r.Context(), session.From(r.Context()), "a"); !found || err != nil {
						t.Errorf("Take: %v, %v", found, err)
					}
				},
				"/both": func(w http.ResponseWriter, r *http.Request) {
					s := session.From(r.Context())
					must[int](t)(0, s.Put("a", []byte(nil)))
					if _, found, err := session.Take[[]byte](r.Context(), s, "a"); !found || err != nil {
						t.Errorf("Take in the request that put it: %v, %v", found, err)
					}
				},
			}.behind(m))
			for _, path := range []string{"/put", "/take", "/both"} {
				wantPage(t, c, path, http.StatusOK, "")
			}
		})
	}
}
