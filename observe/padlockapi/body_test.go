package padlockapi

import (
	"strings"
	"testing"

	"github.com/padlock-go/padlock/driver"
)

// A body is read strictly, so that two clients never mean different locks and get the same one.
func TestStrictBodies(t *testing.T) {
	a, _ := newAPI(t)
	for text, want := range map[string]string{
		``:                                      "not JSON",
		`{`:                                     "not JSON",
		`{} {}`:                                 "not JSON",
		`[]`:                                    "not a JSON object",
		`"a"`:                                   "not a JSON object",
		`{}`:                                    "name is missing",
		`{"name":"a"}`:                          "token is missing",
		`{"Name":"a"}`:                          "a field is unknown",
		`{"name":"a","name":"b"}`:               "there twice",
		`{"name":1}`:                            "must be a string",
		`{"name":null}`:                         "must be a string",
		`{"name":{"name":"b"}}`:                 "must be a string",
		`{"name":["b"]}`:                        "must be a string",
		`{"name":"\ud800"}`:                     "surrogate",
		"{\"name\":\"\xff\"}":                   "UTF-8",
		body(one, `"shared":1`):                 "true or false",
		body(one, `"ttl_ms":1.5`):               "whole number",
		body(one, `"ttl_ms":1e3`):               "whole number",
		body(one, `"ttl_ms":-1`):                "whole number",
		body(one, `"ttl_ms":"1"`):               "whole number",
		body(one, `"ttl_ms":99999999999999`):    "24h0m0s",
		body(one, `"ttl_ms":1`):                 "100ms",
		body(one, `"ttl_ms":0`):                 "TTL",
		body(one, `"slots":0`):                  "slots must be",
		body(one, `"slots":1025`):               "slots must be",
		body(one, `"slots":2`, `"shared":true`): "cannot be combined",
		body(one, `"slot":1`):                   "a field is unknown",
		body("short"):                           "at least 16",
		body("with spaces 0123456789"):          "printable",
		body("padlock:0123456789abcdef"):        "token",
		`{"name":"","token":"` + one + `"}`:     "name",
		body(one, `"label":"`+strings.Repeat("x", driver.MaxLabel+1)+`"`):                "abel",
		`{"name":"` + strings.Repeat("x", driver.MaxName+1) + `","token":"` + one + `"}`: "name",
	} {
		got := send(t, a, "/v1/acquire", text).want(t, text, 400)
		if !strings.Contains(got.word("detail"), want) || strings.Contains(got.text, one) {
			t.Errorf("%.60s: %q, want %q and no token", text, got.word("detail"), want)
		}
	}
	send(t, a, "/v1/acquire", `{"name":"`+strings.Repeat(" ", maxBody)+`"}`).want(t, "a large body", 413)
	widest := strings.Repeat(`\u0001`, driver.MaxName)
	send(t, a, "/v1/acquire", `{"name":"`+widest+`","token":"`+one+`","label":"`+strings.Repeat(`\u0001`, driver.MaxLabel)+`"}`).want(t, "the widest body", 200)
	send(t, a, "/v1/extend", body(one, `"slot":1024`)).want(t, "a slot that is too great", 400)
	send(t, a, "/v1/release", body(one, `"keep_ms":86400001`)).want(t, "a cool-down that is too long", 400)
	send(t, a, "/v1/acquire", body(two)).want(t, "nothing was taken", 200)
}
