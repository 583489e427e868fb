package mysql

import (
	"errors"
	"net/url"
	"strings"
	"testing"

	"github.com/padlock-go/padlock/driver"
)

func TestURLs(t *testing.T) {
	for rawURL, want := range map[string]string{
		"mysql://u:s%23@h/d":                     "u:s#@tcp(h:3306)/d",
		"mysql://h:7/d?tls=true":                 "@tcp(h:7)/d",
		"mariadb://u@[::1]/d?timeout=3s":         "u@tcp([::1]:3306)/d",
		"mysql://u@/d?socket=/run/mysqld/m.sock": "u@unix(/run/mysqld/m.sock)/d",
		"mysql://127.0.0.1/d?tls=preferred":      "@tcp(127.0.0.1:3306)/d",
		"mysql://h/d?tls=preferred":              "write tls=true",
		"mysql://h/":                             "names no database",
		"mysql:///d":                             "write mysql://HOST",
		"mysql://h/d?socket=/s":                  "a host and a socket",
		"mysql://h/d?timeout=canary":             "does not know",
	} {
		u, err := url.Parse(rawURL)
		if err != nil {
			t.Fatal(err)
		}
		cfg, err := configure(u)
		if err != nil {
			if !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "canary") {
				t.Errorf("%s: %v", rawURL, err)
			}
			continue
		}
		login := cfg.User
		if cfg.Passwd != "" {
			login += ":" + cfg.Passwd
		}
		if got := login + "@" + cfg.Net + "(" + cfg.Addr + ")/" + cfg.DBName; got != want {
			t.Errorf("%s is %s, want %s", rawURL, got, want)
		}
		if !cfg.InterpolateParams || cfg.Params["innodb_lock_wait_timeout"] != lockWait {
			t.Errorf("%s: %+v", rawURL, cfg)
		}
	}
}

// The driver reads nothing from the environment.
func TestEnvironment(t *testing.T) {
	for _, name := range []string{"MYSQL_HOST", "MYSQL_PWD", "MYSQL_TCP_PORT", "MYSQL_UNIX_PORT", "MYSQL_USER"} {
		t.Setenv(name, "7777")
	}
	u, _ := url.Parse("mysql://h/d")
	if cfg, err := configure(u); err != nil || strings.Contains(cfg.FormatDSN(), "7777") {
		t.Errorf("%+v, %v", cfg, err)
	}
}

func TestServers(t *testing.T) {
	for rawURL, want := range map[string]string{
		"mysql://h/d":                 "h:3306 false",
		"mysql://h/d?tls=true":        "h:3306 true",
		"mysql://h/d?tls=skip-verify": "h:3306 true",
		"mysql:///d?socket=/s":        " false",
	} {
		u, _ := url.Parse(rawURL)
		addresses, encrypted := servers(u)
		got := strings.Join(addresses, " ") + map[bool]string{true: " true", false: " false"}[encrypted]
		if got != want {
			t.Errorf("%s: %s, want %s", rawURL, got, want)
		}
	}
}
