// Command etcdserver is an etcd server for the tests of padlock. Debian's etcd is too old for them.
// It takes the flags of etcd that the tests need and runs until it is killed.
package main

import (
	"flag"
	"log"
	"net/url"

	"go.etcd.io/etcd/server/v3/embed"
)

func main() {
	c := embed.NewConfig()
	var client, peer, advertise string
	flag.StringVar(&c.Name, "name", "one", "the name of this member")
	flag.StringVar(&c.Dir, "data-dir", "", "the directory of the data")
	flag.StringVar(&client, "client", "", "the URL for clients")
	flag.StringVar(&peer, "peer", "", "the URL for other members")
	flag.StringVar(&advertise, "advertise", "", "the URL that other members use, if it is not -peer")
	flag.StringVar(&c.InitialCluster, "cluster", "", "NAME=PEER-URL of every member, separated by commas")
	flag.Int64Var(&c.QuotaBackendBytes, "quota", 0, "the most bytes of data, or 0 for the default")
	flag.UintVar(&c.TickMs, "heartbeat", c.TickMs, "milliseconds between two heartbeats of the leader")
	flag.UintVar(&c.ElectionMs, "election", c.ElectionMs, "milliseconds after which members elect a new leader")
	flag.StringVar(&c.ClientTLSInfo.CertFile, "cert", "", "a certificate, for clients that use TLS")
	flag.StringVar(&c.ClientTLSInfo.KeyFile, "key", "", "the key of the certificate")
	flag.BoolVar(&c.UnsafeNoFsync, "no-fsync", false, "do not wait for the disk: for benchmarks only")
	flag.Parse()
	c.ListenClientUrls = []url.URL{parse(client)}
	c.AdvertiseClientUrls = c.ListenClientUrls
	c.ListenPeerUrls = []url.URL{parse(peer)}
	c.AdvertisePeerUrls = c.ListenPeerUrls
	if advertise != "" {
		c.AdvertisePeerUrls = []url.URL{parse(advertise)}
	}
	c.LogLevel = "warn"
	e, err := embed.StartEtcd(c)
	if err != nil {
		log.Fatal(err)
	}
	log.Fatal(<-e.Err())
}

func parse(text string) url.URL {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" {
		log.Fatalf("%q is no URL", text)
	}
	return *u
}
