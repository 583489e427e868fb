package redisstore

import (
	"strings"
	"sync"
)

// A cluster keeps a key in the slot that is the CRC16 (XMODEM) of its hash tag. The hash tag is the
// text between the first { and the next }, or the whole key if there is no such text. All keys of a
// lock must be in one slot. So each companion key contains a hash tag of three letters that belongs
// to the slot of the lock's key. A table has such a tag for each slot. Single servers use the same
// keys.

const hashSlots = 16384

var crcTable = sync.OnceValue(func() *[256]uint16 {
	var table [256]uint16
	for i := range table {
		crc := uint16(i) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
		table[i] = crc
	}
	return &table
})

func crc16(s string) uint16 {
	table := crcTable()
	var crc uint16
	for i := range len(s) {
		crc = crc<<8 ^ table[byte(crc>>8)^s[i]]
	}
	return crc
}

// hashSlotOf is the slot of a key.
func hashSlotOf(key string) uint16 {
	if open := strings.IndexByte(key, '{'); open >= 0 {
		if length := strings.IndexByte(key[open+1:], '}'); length > 0 {
			key = key[open+1 : open+1+length]
		}
	}
	return crc16(key) % hashSlots
}

const tagLetters = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_"

// hashSlotTags has a hash tag for each slot of a cluster: the first text of three letters whose
// hash gives that slot. There is such a text for every slot. The table is made once, in about 2 ms.
var hashSlotTags = sync.OnceValue(func() *[hashSlots][3]byte {
	var tags [hashSlots][3]byte
	table := crcTable()
	missing := hashSlots
	for i := 0; missing > 0 && i < len(tagLetters)*len(tagLetters)*len(tagLetters); i++ {
		word := [3]byte{tagLetters[i>>12], tagLetters[i>>6&63], tagLetters[i&63]}
		var crc uint16
		for _, b := range word {
			crc = crc<<8 ^ table[byte(crc>>8)^b]
		}
		if slot := crc % hashSlots; tags[slot][0] == 0 {
			tags[slot] = word
			missing--
		}
	}
	return &tags
})
