package redisstore

import (
	"strconv"
	"strings"
)

// node has what a server reports about itself. If a server does not report a field, the field is
// "".
type node struct {
	addr    string
	cluster bool
	err     error
	info    map[string]string // INFO
	conf    map[string]string // the reply to CONFIG GET append*; nil if the server refuses the command

	owners hashSlotOwners // the owners of the slots, as this server of a cluster knows them
}

func (n *node) number(field string) int64 {
	v, err := strconv.ParseInt(n.info[field], 10, 64)
	if err != nil {
		return -1
	}
	return v
}

func (n *node) replica() bool { return n.info["role"] == "slave" }

// durable reports whether every change is on disk before the server replies.
func (n *node) durable() bool {
	return n.conf["appendonly"] == "yes" && n.conf["appendfsync"] == "always"
}

// evicts reports whether the server drops keys with an expiry to make room.
func (n *node) evicts() bool {
	return n.info["maxmemory_policy"] != "noeviction" && n.info["maxmemory"] != "0"
}

func (n *node) version() (major, minor int) {
	parts := strings.SplitN(n.info["redis_version"], ".", 3)
	if len(parts) < 2 {
		return 0, 0
	}
	major, _ = strconv.Atoi(parts[0])
	minor, _ = strconv.Atoi(parts[1])
	return major, minor
}
