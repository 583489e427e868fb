package etcdstore_test

import (
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/stores/etcdstore"
)

func TestURL(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte("canary\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for text, param := range map[string]string{
		"etcd://one:2379,two:2380/shop/?lazy=yes":                     "",
		"etcds://one?lazy=yes&server-name=two":                        "",
		"etcd://one?lazy=yes&prefix=shop/":                            "",
		"etcd://app@one?lazy=yes&password-file=" + file:               "",
		"etcd://app:canary@one?lazy=yes":                              "",
		"etcd://app:canary@one?lazy=yes&password-file=" + file:        "password",
		"etcd://app@one?lazy=yes":                                     "password",
		"etcd://:canary@one?lazy=yes":                                 "user",
		"etcd://one/shop?lazy=yes&prefix=other":                       "prefix",
		"etcd://one?lazy=maybe":                                       "lazy",
		"etcd://one?ca=" + file:                                       "TLS",
		"etcds://one?tls=no":                                          "tls",
		"etcds://one?ca=" + file:                                      "ca",
		"etcds://one?cert=" + file:                                    "cert",
		"etcd://one?color=red":                                        "color",
		"etcd:///shop":                                                "form",
		"etcd://one,,two":                                             "host",
		"etcd://one?prefix=" + strings.Repeat("x", 300) + "&lazy=yes": "prefix",
	} {
		u, err := url.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		s, err := etcdstore.FromURL(t.Context(), u)
		switch {
		case err == nil && param == "":
			s.Close()
		case err == nil:
			t.Errorf("%s: no error", text)
		case param == "" || !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), param) || strings.Contains(err.Error(), "canary"):
			t.Errorf("%s: %v", text, err)
		}
	}
}
