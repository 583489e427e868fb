package redisconn

import (
	"context"
	"crypto/tls"
	"net"
	"reflect"
	"testing"
)

// olderConfig is the Config of a redisstore that does not know every field.
type olderConfig struct {
	Addrs    []string
	Sentinel struct{ MasterName string }
	DB       int
	TLS      *tls.Config
}

// TestNewCopiesByName gives New a type with fewer fields, and then all fields.
func TestNewCopiesByName(t *testing.T) {
	old := olderConfig{Addrs: []string{"h:1"}, DB: 3, TLS: &tls.Config{ServerName: "h"}}
	old.Sentinel.MasterName = "m"
	s, err := New(old)
	if err != nil {
		t.Fatal(err)
	}
	old.Addrs[0], old.TLS.ServerName = "other:1", "other"
	if s.Addrs[0] != "h:1" || s.TLS.ServerName != "h" || s.DB != 3 || s.Sentinel.MasterName != "m" {
		t.Errorf("the server is %+v", s)
	}
	ask := func(context.Context) (string, string, error) { return "", "", nil }
	all := Config{
		Addrs: []string{"h:1"}, Socket: "/s", Cluster: true, Sentinel: Sentinel{"m", "u", "p", ask}, User: "u", Password: "p",
		Credentials: ask, DB: 1, ClientName: "n", TLS: &tls.Config{},
		Dial: func(context.Context, string, string) (net.Conn, error) { return nil, nil },
	}
	var copied Config
	copyFields(reflect.ValueOf(&copied).Elem(), reflect.ValueOf(all))
	checkSet(t, reflect.ValueOf(copied))
	checkSet(t, reflect.ValueOf(copied.Sentinel))
}

func checkSet(t *testing.T, v reflect.Value) {
	t.Helper()
	for i := range v.NumField() {
		if v.Field(i).IsZero() {
			t.Errorf("%s.%s is not set", v.Type().Name(), v.Type().Field(i).Name)
		}
	}
}

// TestLoginOfAnotherConnection asks for the login of an address that Dial did not return.
func TestLoginOfAnotherConnection(t *testing.T) {
	if _, _, err := Login(&net.TCPAddr{}); err == nil {
		t.Error("there is no error")
	}
}
