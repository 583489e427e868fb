package etcdstore

import (
	"encoding/json"
	"testing"
)

// TestTold: what a Release writes for the next waiter is the JSON of a record. It is read in any
// form that this JSON may have.
func TestTold(t *testing.T) {
	t.Parallel()
	want := record{Fence: 1795238034729561, PassedTo: "wGf-_0", Waiters: "SLOT-0 id a1 b2;SLOT-1 id a3 b4;"}
	written := handOverText(want.Fence, want.PassedTo, want.Waiters)
	var r record
	if err := json.Unmarshal([]byte(written), &r); err != nil || r != want {
		t.Errorf("%s is the JSON of %+v, %v", written, r, err)
	}
	for _, text := range []string{written, want.text(), `{"to":"wGf-_0","new":[1],"next":"SLOT-0 id a1 b2;SLOT-1 id a3 b4\u003b","fence":1795238034729561}`,
		`{"fence":1795238034729561,"to":"wGf-_0","next":"SLOT-0 id a1 b2;SLOT-1 id a3 b4;","new":"1"}`} {
		if r, ok := parseHandOver([]byte(text)); !ok || r != want {
			t.Errorf("%s is read as %+v, %v", text, r, ok)
		}
	}
	for _, text := range []string{"", "{", `{"fence":-1,"to":"","next":""}`, `{"fence":1,"to":"a","next":"b`} {
		if r, ok := parseHandOver([]byte(text)); ok {
			t.Errorf("%s is read as %+v", text, r)
		}
	}
}
