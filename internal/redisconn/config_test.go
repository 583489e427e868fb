package redisconn

import (
	"context"
	"crypto/tls"
	"net"
	"reflect"
	"testing"
)

// TestPlainCopiesEveryField sets every field, so a field that plain forgets is found.
func TestPlainCopiesEveryField(t *testing.T) {
	type named Sentinel
	ask := func(context.Context) (string, string, error) { return "", "", nil }
	c := Config[named]{
		Addrs: []string{"h:1"}, Socket: "/s", Cluster: true, Sentinel: named{"m", "u", "p", ask}, User: "u", Password: "p",
		Credentials: ask, DB: 1, ClientName: "n", TLS: &tls.Config{ServerName: "h"},
		Dial: func(context.Context, string, string) (net.Conn, error) { return nil, nil },
	}
	given, copied := reflect.ValueOf(c), reflect.ValueOf(plain(c))
	for i := range given.NumField() {
		name := given.Type().Field(i).Name
		if given.Field(i).IsZero() {
			t.Errorf("the test does not set %s", name)
		}
		if copied.Field(i).IsZero() {
			t.Errorf("%s is not copied", name)
		}
	}
	if s := plain(c).Sentinel; s.MasterName != "m" || s.User != "u" || s.Password != "p" || s.Credentials == nil {
		t.Errorf("the sentinels are %+v", s)
	}
}

// TestLoginOfAnotherConnection asks for the login of an address that Dial did not return.
func TestLoginOfAnotherConnection(t *testing.T) {
	if _, _, err := Login(&net.TCPAddr{}); err == nil {
		t.Error("there is no error")
	}
}
