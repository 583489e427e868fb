package etcdstore_test

import (
	"testing"

	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/stores/etcdstore"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// docs/stores/etcd.md has this function. pages:TestFunctions compares them.

func fromEtcd(c clientv3.Config) etcdstore.Config {
	return etcdstore.Config{
		Endpoints: c.Endpoints, Credentials: etcdstore.Login(c.Username, c.Password), TLS: c.TLS,
	}
}

// TestSettingsOfAClient opens a store with the settings of a client.
func TestSettingsOfAClient(t *testing.T) {
	t.Parallel()
	c := clientv3.Config{Endpoints: []string{"http://" + server.Etcd(t, server.EtcdOptions{}).Addr()}}
	client, err := clientv3.New(c)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	s := openWith(t, fromEtcd(c))
	take(t, s, request("job", "one"))
	reply, err := client.Get(t.Context(), "padlock/", clientv3.WithPrefix(), clientv3.WithCountOnly())
	if err != nil || reply.Count == 0 {
		t.Errorf("the client sees %v, %v", reply, err)
	}
}
