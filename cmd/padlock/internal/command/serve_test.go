package command

import (
	"bytes"
	"net"
	"strings"
	"testing"
)

func TestServeUsage(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for args, want := range map[string]int{
		"serve extra":                                    exitUsage,
		"serve --listen nonsense":                        exitUsage,
		"serve --listen 127.0.0.1:99999":                 exitUsage,
		"serve --listen 127.0.0.1:no-such-port":          exitUsage,
		"serve --listen " + taken.Addr().String():        exitUnavailable,
		"serve --listen 127.0.0.1:0 --allow-break":       exitUsage,
		"serve --watch= --insecure --listen 192.0.2.1:1": exitUsage,
		"serve --listen 0.0.0.0:0":                       exitUsage,
		"serve --store nonsense://x":                     exitUsage,
	} {
		var out, said bytes.Buffer
		if got := (&app{program: whole(), stdout: &out, stderr: &said}).execute(strings.Fields(args)); got != want || said.Len() == 0 || out.Len() > 0 {
			t.Errorf("padlock %s: %d, want %d; it says %q %q", args, got, want, out.String(), said.String())
		}
	}
}
