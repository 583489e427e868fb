package driver

import (
	"errors"
	"strings"
	"testing"
)

func TestCheckToken(t *testing.T) {
	for _, token := range []string{"t", strings.Repeat("t", MaxToken), "__WRITE__", "padlock"} {
		if err := CheckToken(token); err != nil {
			t.Errorf("a token of %d bytes: %v", len(token), err)
		}
	}
	long := strings.Repeat("secret", MaxToken)
	for _, token := range []string{"", long, "__write__", "padlock:look", "padlock:cool:1"} {
		err := CheckToken(token)
		if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), "token") || strings.Contains(err.Error(), "secret") {
			t.Errorf("a token of %d bytes: %v", len(token), err)
		}
		r := Request{Name: "n", Token: "t", Replaces: token, TTL: MinTTL}
		if err := r.Validate(&Guarantees{}); errors.Is(err, ErrInvalid) != (token != "") {
			t.Errorf("a request that replaces a token of %d bytes: %v", len(token), err)
		}
	}
}
