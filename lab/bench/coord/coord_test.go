//go:build linux

package main

import (
	"testing"
	"time"

	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/lab/bench/benchtest"
)

var tiny = plan{20 * time.Millisecond, 3}

// Every experiment runs and has its figures, which mean nothing in so short a time.
func TestEtcd(t *testing.T) { benchtest.Figures(t, &bench, tiny, "etcd", ours, 3) }

func TestZooKeeper(t *testing.T) {
	server.Needs(t, "zookeeper")
	benchtest.Figures(t, &bench, tiny, "ZooKeeper", zkOurs, 3)
}
