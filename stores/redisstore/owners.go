package redisstore

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"strconv"

	"github.com/redis/rueidis"
)

// hashSlotOwners says which primary of a cluster has which slots. It is nil without a cluster, and
// if a server does not support sharded messages (SPUBLISH). Then the store sends messages to
// waiters with PUBLISH, which reaches all servers.
type hashSlotOwners []hashSlotRange

type hashSlotRange struct {
	first, last uint16
	primary     string // the node's id
}

// primaryOf returns the primary that has a slot, or "" if that is not known.
func (o hashSlotOwners) primaryOf(slot uint16) string {
	for i := range o {
		if o[i].first <= slot && slot <= o[i].last {
			return o[i].primary
		}
	}
	return ""
}

// readOwners reads the reply to CLUSTER SLOTS: a list of ranges, each with its first and last slot
// and its nodes. The first node of a range is the primary, with its address, port and id. The
// result is nil if the reply is an error or cannot be read.
func readOwners(resp rueidis.RedisResult) (all hashSlotOwners) {
	ranges, err := resp.ToArray()
	if err != nil {
		return nil
	}
	for i := range ranges {
		parts, err := ranges[i].ToArray()
		if err != nil || len(parts) < 3 {
			return nil
		}
		primary, err := parts[2].ToArray()
		if err != nil || len(primary) < 3 {
			return nil
		}
		id, _ := primary[2].ToString()
		first, last := number(&parts[0]), number(&parts[1])
		if id == "" || first < 0 || last < first || last >= hashSlots {
			return nil
		}
		all = append(all, hashSlotRange{uint16(first), uint16(last), id})
	}
	return all
}

// shardedDigits is the number of digits in the id of a sharded channel. The ids of all other
// channels have 16 digits. So a script can tell from the id how to send a message to a waiter; see
// publish.lua. The subscribers of a sharded channel are connected to the primary of the channel's
// slot.
const shardedDigits = 17

// channelOf returns the id of a channel whose slot belongs to primary, or false if primary has no
// slots. The id has shardedDigits hexadecimal digits.
func (o hashSlotOwners) channelOf(primary string) (id string, ok bool) {
	number, err := strconv.ParseUint(newID(), 16, 64)
	for range 16 * hashSlots { // if the primary has only one slot, this takes 16,384 tries on average
		id = "0" + hexID(number)
		if o.primaryOf(hashSlotOf(shardChannel(id))) == primary {
			return id, err == nil
		}
		number++
	}
	return "", false
}

// The scripts build the names of channels in the same way as the two functions below.

// allChannel is the name of a channel for PUBLISH.
func allChannel(id string) string { return "padlock:" + id }

// shardChannel is the name of a channel for SPUBLISH. It differs from the name for PUBLISH. So the
// receiver of a message can tell whether the message was sent with PUBLISH or SPUBLISH, which the
// client does not report.
func shardChannel(id string) string { return "padlock:s:" + id }

func newID() string {
	b := make([]byte, 8)
	rand.Read(b)
	return hex.EncodeToString(b)
}

func hexID(n uint64) string {
	return hex.EncodeToString(binary.BigEndian.AppendUint64(nil, n))
}
