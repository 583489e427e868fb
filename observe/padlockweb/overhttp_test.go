package padlockweb

import "testing"

// TestOverHTTP: a label of padlockapi names the client, other labels name nobody.
func TestOverHTTP(t *testing.T) {
	for label, want := range map[string]httpClient{
		"bill.sh web-9/77 (shop, 10.0.0.5)": {"web-9:77", "web-9", "bill.sh", "shop, 10.0.0.5"},
		"web-9/77 (::1)":                    {"web-9:77", "web-9", "", "::1"},
		"bill (May) (10.0.0.5)":             {"10.0.0.5", "", "bill (May)", "10.0.0.5"},
		"(shop, 10.0.0.5)":                  {"shop, 10.0.0.5", "", "", "shop, 10.0.0.5"},
	} {
		if got := overHTTP(label); got == nil || *got != want {
			t.Errorf("%q: %+v, want %+v", label, got, want)
		}
	}
	for _, label := range []string{"", "report.sh", "deploy (blue)", "web-9/77", "web-9/77 ()", "(10.0.0.5) report.sh"} {
		if got := overHTTP(label); got != nil {
			t.Errorf("%q: %+v, want nobody", label, got)
		}
	}
}
