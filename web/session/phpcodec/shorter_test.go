package phpcodec_test

import (
	"testing"

	"github.com/padlock-go/padlock/web/session/phpcodec"
)

// TestShorterArray: an array of PHP that is shorter than the Go array sets the other elements to
// zero, as encoding/json does.
func TestShorterArray(t *testing.T) {
	v := [2]int{8, 9}
	if err := phpcodec.Unmarshal([]byte("a:1:{i:0;i:5;}"), &v); err != nil || v != [2]int{5, 0} {
		t.Errorf("%v, %v", v, err)
	}
}
