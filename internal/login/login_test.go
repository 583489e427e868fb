package login

import (
	"errors"
	"testing"
)

func TestHide(t *testing.T) {
	inner := errors.New(`login of "al" with 'al' as user=al and longsecret, also failed`)
	err := Hide(inner, "al", "longsecret", "")
	if want := `login of "…" with '…' as user=… and …, also failed`; err.Error() != want {
		t.Errorf("it says %s, want %s", err, want)
	}
	if !errors.Is(err, inner) {
		t.Error("the error itself is lost")
	}
	if Hide(inner, "nothing") != inner {
		t.Error("an error without secrets is wrapped")
	}
}

func TestLocal(t *testing.T) {
	for host, want := range map[string]bool{
		"": true, "localhost": true, "127.0.0.1": true, "127.9.9.9": true, "::1": true, "/run/pg": true,
		"10.0.0.1": false, "h": false, "localhost.example.org": false,
	} {
		if Local(host) != want {
			t.Errorf("%q: %v", host, !want)
		}
	}
}
