package padlockapi

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// fuzzBody checks what becomes of the bodies of one operation: in the reader, and in the Handler.
func fuzzBody(f *testing.F, path string, seeds ...string) {
	op := &operations[slices.IndexFunc(operations, func(op operation) bool { return op.path == path })]
	for _, s := range append(seeds,
		`{}`, `{"name":"a","token":"`+one+`"}`, `{"name":"\ud83d\ude00","fence":9007199254740991}`, `[{`, "\x00",
		`{"name_base64":"//8=","token":"`+one+`"}`, `{"name":"a","name_base64":"YQ=="}`, `{"name_base64":"YQ"}`, `{"name":"a","slot":0,"token":"`+one+`"}`,
	) {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		b, err := parseBody([]byte(text), op)
		if err == nil {
			compareBody(t, b, text, op)
		} else if b != nil || err.Error() == "" || !utf8.ValidString(err.Error()) {
			t.Errorf("an error with a body, or without a text: %v", err)
		}
		a, _ := newAPI(t, AllowBreak(), Authorize(func(*http.Request) Visitor {
			return Visitor{Name: "fuzz", Read: true, Acquire: true, Break: true, Ask: true}
		}))
		gone, leave := cancellable() // nobody waits for a lock that is held
		leave()
		got := send(t, a, path, text, gone) // this compares the answer with the OpenAPI document
		switch known := slices.Contains(op.statuses, got.status); {
		case err != nil && got.status != http.StatusBadRequest && got.status != http.StatusRequestEntityTooLarge:
			t.Errorf("the status is %d although the body is wrong: %v", got.status, err)
		case !known && got.status != http.StatusBadRequest && got.status != http.StatusRequestEntityTooLarge:
			t.Errorf("the status is %d: %s", got.status, got.text)
		}
		if got.status >= 300 && strings.Contains(got.text, one) {
			t.Errorf("an answer without a lock has the token: %s", got.text)
		}
	})
}

// compareBody checks that encoding/json reads the same values from an accepted body.
func compareBody(t *testing.T, b *requestBody, text string, op *operation) {
	t.Helper()
	var loose map[string]any
	if err := json.Unmarshal([]byte(text), &loose); err != nil || len(loose) != len(b.given) {
		t.Fatalf("%q has %d fields, %d were read: %v", text, len(loose), len(b.given), err)
	}
	for _, key := range b.given {
		want, plain := loose[key]
		if !plain {
			encoded, _ := loose[key+inBase64].(string)
			bytes, err := base64.StdEncoding.DecodeString(encoded)
			if err != nil {
				t.Errorf("%s was accepted: %v", key+inBase64, err)
			}
			want = string(bytes)
		}
		switch got := b.field(key).(type) {
		case *string:
			if *got != want || plain && !utf8.ValidString(*got) {
				t.Errorf("%s is %q, want %q", key, *got, want)
			}
		case *int64:
			if float64(*got) != want {
				t.Errorf("%s is %d, want %v", key, *got, want)
			}
			if duration(*got) < 0 {
				t.Errorf("%s is the time %v", key, duration(*got))
			}
		case *bool:
			if *got != want {
				t.Errorf("%s is %v", key, *got)
			}
		}
		if !slices.Contains(op.accepts, key) {
			t.Errorf("%s was accepted", key)
		}
	}
}

func FuzzAcquireBody(f *testing.F) {
	fuzzBody(f, "/v1/acquire", body(one, `"ttl_ms":30000`, `"wait_ms":25000`, `"keep_ms":0`, `"shared":true`, `"label":"x"`, `"fence_above":1`),
		body(one, `"slots":2`, `"ttl_ms":1000`), body(one, `"replaces":"`+two+`"`))
}
func FuzzExtendBody(f *testing.F)  { fuzzBody(f, "/v1/extend", body(one, `"slot":1`, `"ttl_ms":0`)) }
func FuzzReleaseBody(f *testing.F) { fuzzBody(f, "/v1/release", body(one, `"slot":1`, `"keep_ms":5`)) }
func FuzzStatusBody(f *testing.F)  { fuzzBody(f, "/v1/status", `{"name":"a","slot":3}`) }
func FuzzListBody(f *testing.F) {
	fuzzBody(f, "/v1/list", `{"prefix":"a"}`, `{"prefix_base64":"/w=="}`)
}
func FuzzAskBody(f *testing.F) { fuzzBody(f, "/v1/ask", `{"name":"a","reason":"x"}`) }
func FuzzBreakBody(f *testing.F) {
	fuzzBody(f, "/v1/break", `{"name":"a","slot":3,"fence":12,"reason":"x"}`)
}
