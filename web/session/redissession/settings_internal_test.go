package redissession

import (
	"context"
	"crypto/tls"
	"net"
	"reflect"
	"testing"

	"github.com/padlock-go/padlock/stores/redisstore"
)

// TestSettings gives settings a Config in which every field is set.
func TestSettings(t *testing.T) {
	ask := func(context.Context) (string, string, error) { return "", "", nil }
	given := reflect.ValueOf(redisstore.Config{
		Addrs: []string{"h:1"}, Socket: "/s", Cluster: true, Sentinel: redisstore.Sentinel{MasterName: "m", Credentials: ask}, Credentials: ask,
		DB: 1, ClientName: "n", TLS: &tls.Config{}, Dial: func(context.Context, string, string) (net.Conn, error) { return nil, nil },
	})
	got := reflect.ValueOf(settings(given.Interface().(redisstore.Config)))
	for _, pair := range [][2]reflect.Value{{given, got}, {given.FieldByName("Sentinel"), got.FieldByName("Sentinel")}} {
		for i := range pair[0].NumField() {
			name := pair[0].Type().Field(i).Name
			if pair[0].Field(i).IsZero() || pair[1].FieldByName(name).IsZero() {
				t.Errorf("%s.%s: %v becomes %v", pair[0].Type().Name(), name, pair[0].Field(i), pair[1].FieldByName(name))
			}
		}
	}
}
