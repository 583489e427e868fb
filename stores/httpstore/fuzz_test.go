package httpstore

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
)

// fuzzAnswer checks what the store makes of the answers to one kind of request. An answer counts as
// a success only if it is a JSON object with the given fields. Every other one is an error. It says
// that the lock is held or lost only in the words of a server of padlock.
func fuzzAnswer(f *testing.F, empty func() success, check func(*testing.T, success), needs []string, seeds ...string) {
	for _, seed := range append(seeds, `{}`, `[]`, `null`, `<html>`, ``, `{"error":"held"}`) {
		f.Add(http.StatusOK, seed)
	}
	for word, m := range meanings {
		f.Add(m.status, `{"error":"`+word+`","detail":"x"}`)
	}
	f.Add(http.StatusConflict, `{"error":"held","holders":[{"host":"h","pid":7,"since_ms":-9007199254740993,"until_ms":9223372036854775807}]}`)
	f.Fuzz(func(t *testing.T, status int, text string) {
		if status < 100 || status > 999 {
			t.Skip("net/http reads no such status")
		}
		a := &answer{status: status, body: []byte(text), server: "server"}
		out := empty()
		if err := a.read(out); err == nil {
			var fields map[string]any
			_ = json.Unmarshal([]byte(text), &fields) // the decoder of out has accepted it
			for _, key := range needs {
				if !hasField(fields, key) {
					t.Errorf("%q has no %s, and counts", text, key)
				}
			}
			check(t, out)
		} else if !errors.Is(err, driver.ErrUncertain) {
			t.Errorf("%q: %v", text, err)
		}
		err := a.err()
		word := a.problem().Error
		for _, no := range []error{driver.ErrHeld, driver.ErrLost, driver.ErrExpired, driver.ErrInvalid} {
			if errors.Is(err, no) && (word == "" || !errors.Is(meanings[word].err, no)) {
				t.Errorf("%d %q is %v", status, text, err)
			}
		}
		if err == nil || word != "" && meanings[word].status != status {
			t.Errorf("%d %q is %v", status, text, err)
		}
		if held := new(driver.HeldError); errors.As(err, &held) && held.Waiters != -1 {
			t.Errorf("%q says that %d wait", text, held.Waiters)
		}
		if a.unchanged() && status != http.StatusServiceUnavailable {
			t.Errorf("%d %q counts as unchanged", status, text)
		}
	})
}

// hasField reports whether a field is there. encoding/json accepts its name in capitals, too.
func hasField(fields map[string]any, key string) bool {
	text, _ := json.Marshal(fields) // cannot fail: it was JSON
	var one map[string]json.RawMessage
	_ = json.Unmarshal(text, &one)
	for name, value := range one {
		if strings.EqualFold(name, key) && string(value) != "null" {
			return true
		}
	}
	return false
}

func FuzzAcquireAnswer(f *testing.F) {
	s := &Store{g: driver.Guarantees{Fence: driver.FenceDurable}}
	fuzzAnswer(f, func() success { return new(granted) }, func(t *testing.T, out success) {
		if g := s.grant(out.(*granted)); g.TTL <= 0 || g.TTL > longestAnswer {
			t.Errorf("the lease is %v", g.TTL)
		}
	}, []string{"valid_ms"}, `{"token":"a","fence":7,"valid_ms":900}`, `{"valid_ms":9223372036854775807}`, `{"valid_ms":-1,"shared":true}`)
}

func FuzzWaitAnswer(f *testing.F) {
	fuzzAnswer(f, func() success { return new(goesOn) }, func(*testing.T, success) {}, []string{"retry_ms"}, `{"token":"a","retry_ms":1}`)
}

func FuzzReleaseAnswer(f *testing.F) {
	fuzzAnswer(f, func() success { return new(released) }, func(t *testing.T, out success) {
		if _, known := outcomes[out.(*released).Outcome]; !known {
			t.Error("the outcome is unknown")
		}
	}, []string{"outcome"}, `{"outcome":"released"}`, `{"outcome":"gone"}`, `{"outcome":""}`)
}

func FuzzStatusAnswer(f *testing.F) {
	fuzzAnswer(f, func() success { return new(state) }, func(t *testing.T, out success) {
		checkState(t, out.(*state).state())
	}, []string{"holders"}, `{"name":"a","fence":3,"holders":[{"label":"l","until_ms":500,"since_ms":3}]}`, `{"holders":[],"slot":-1}`)
}

func FuzzListAnswer(f *testing.F) {
	fuzzAnswer(f, func() success { return new(listed) }, func(t *testing.T, out success) {
		for _, one := range out.(*listed).Locks {
			checkState(t, one.state())
		}
	}, []string{"locks"}, `{"locks":[{"name_base64":"//8=","holders":[{}]}],"left_out":2}`, `{"locks":[{}]}`)
}

func FuzzBreakAnswer(f *testing.F) {
	fuzzAnswer(f, func() success { return new(broken) }, func(*testing.T, success) {}, []string{"fence"}, `{"fence":9}`, `{"fence":null}`)
}

func FuzzStoreAnswer(f *testing.F) {
	fuzzAnswer(f, func() success { return new(promises) }, func(t *testing.T, out success) {
		if g := out.(*promises).guarantees(); g.MaxTTL < 0 || g.DeadWaiter < 0 || g.MinTTL < 0 {
			t.Errorf("the promises are %+v", g)
		}
	}, []string{"store"}, `{"store":"redis","fence":"durable","max_ttl_ms":58000,"shared":true}`, `{"store":"x","max_ttl_ms":9223372036854775807,"min_ttl_ms":-1}`, `{"store":"x","max_ttl_ms":1}`)
}

func checkState(t *testing.T, s driver.State) {
	t.Helper()
	if s.Waiters != -1 {
		t.Errorf("%d wait", s.Waiters)
	}
	for _, h := range s.Holds {
		if now := time.Now(); h.Since.After(now.Add(longestAnswer)) || h.Until.After(now.Add(longestAnswer)) {
			t.Errorf("held since %v until %v", h.Since, h.Until)
		}
	}
}
