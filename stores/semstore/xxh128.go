package semstore

import (
	"encoding/binary"
	"math/bits"
)

// This file implements XXH3 with 128 bits, seed 0 and the default secret, as PHP's hash('xxh128',
// …) does. See github.com/Cyan4973/xxHash, doc/xxhash_spec.md. Names are short, so the code is
// simple rather than fast.

const (
	prime32x1 = 0x9E3779B1
	prime32x2 = 0x85EBCA77
	prime32x3 = 0xC2B2AE3D
	prime64x1 = 0x9E3779B185EBCA87
	prime64x2 = 0xC2B2AE3D27D4EB4F
	prime64x3 = 0x165667B19E3779F9
	prime64x4 = 0x85EBCA77C2B2AE63
	prime64x5 = 0x27D4EB2F165667C5

	primeMix1 = 0x165667919E3779F9
	primeMix2 = 0x9FB21C651E98DF25
)

// secret is the default secret of XXH3.
var secret = []byte("" +
	"\xb8\xfe\x6c\x39\x23\xa4\x4b\xbe\x7c\x01\x81\x2c\xf7\x21\xad\x1c\xde\xd4\x6d\xe9\x83\x90\x97\xdb" +
	"\x72\x40\xa4\xa4\xb7\xb3\x67\x1f\xcb\x79\xe6\x4e\xcc\xc0\xe5\x78\x82\x5a\xd0\x7d\xcc\xff\x72\x21" +
	"\xb8\x08\x46\x74\xf7\x43\x24\x8e\xe0\x35\x90\xe6\x81\x3a\x26\x4c\x3c\x28\x52\xbb\x91\xc3\x00\xcb" +
	"\x88\xd0\x65\x8b\x1b\x53\x2e\xa3\x71\x64\x48\x97\xa2\x0d\xf9\x4e\x38\x19\xef\x46\xa9\xde\xac\xd8" +
	"\xa8\xfa\x76\x3f\xe3\x9c\x34\x3f\xf9\xdc\xbb\xc7\xc7\x0b\x4f\x1d\x8a\x51\xe0\x4b\xcd\xb4\x59\x31" +
	"\xc8\x9f\x7e\xc9\xd9\x78\x73\x64\xea\xc5\xac\x83\x34\xd3\xeb\xc3\xc5\x81\xa0\xff\xfa\x13\x63\xeb" +
	"\x17\x0d\xdd\x51\xb7\xf0\xda\x49\xd3\x16\x55\x26\x29\xd4\x68\x9e\x2b\x16\xbe\x58\x7d\x47\xa1\xfc" +
	"\x8f\xf8\xb8\xd1\x7a\xd0\x31\xce\x45\xcb\x3a\x8f\x95\x16\x04\x28\xaf\xd7\xfb\xca\xbb\x4b\x40\x7e")

// uint128 is a number of 128 bits. To hash 17 to 240 bytes, hi and lo are first used as two
// separate sums of 64 bits. At the end, the method uint128.sum combines the two sums into the hash.
type uint128 struct{ hi, lo uint64 }

// xxh128 returns the digest as PHP prints it: the greater half first, big-endian.
func xxh128(b []byte) (digest [16]byte) {
	var h uint128
	switch n := len(b); {
	case n == 0:
		h = uint128{hi: finish64(word(secret, 80) ^ word(secret, 88)), lo: finish64(word(secret, 64) ^ word(secret, 72))}
	case n <= 3:
		h = hashTo3(b)
	case n <= 8:
		h = hashTo8(b)
	case n <= 16:
		h = hashTo16(b)
	case n <= 128:
		h = hashTo128(b)
	case n <= 240:
		h = hashTo240(b)
	default:
		h = hashLong(b)
	}
	binary.BigEndian.PutUint64(digest[:8], h.hi)
	binary.BigEndian.PutUint64(digest[8:], h.lo)
	return digest
}

func word(b []byte, at int) uint64     { return binary.LittleEndian.Uint64(b[at:]) }
func half(b []byte, at int) uint32     { return binary.LittleEndian.Uint32(b[at:]) }
func foldedProduct(x, y uint64) uint64 { hi, lo := bits.Mul64(x, y); return hi ^ lo }

// finish mixes the bits of a sum.
func finish(h uint64) uint64 {
	h ^= h >> 37
	h *= primeMix1
	return h ^ h>>32
}

// finish64 does the same as finish, with the steps of the older XXH64.
func finish64(h uint64) uint64 {
	h ^= h >> 33
	h *= prime64x2
	h ^= h >> 29
	h *= prime64x3
	return h ^ h>>32
}

func hashTo3(b []byte) uint128 {
	n := len(b)
	lo := uint32(b[0])<<16 | uint32(b[n>>1])<<24 | uint32(b[n-1]) | uint32(n)<<8
	hi := bits.RotateLeft32(bits.ReverseBytes32(lo), 13)
	return uint128{
		hi: finish64(uint64(hi ^ half(secret, 8) ^ half(secret, 12))),
		lo: finish64(uint64(lo ^ half(secret, 0) ^ half(secret, 4))),
	}
}

func hashTo8(b []byte) uint128 {
	n := len(b)
	input := uint64(half(b, 0)) | uint64(half(b, n-4))<<32
	hi, lo := bits.Mul64(input^word(secret, 16)^word(secret, 24), prime64x1+uint64(n)<<2)
	hi += lo << 1
	lo ^= hi >> 3
	lo ^= lo >> 35
	lo *= primeMix2
	return uint128{hi: finish(hi), lo: lo ^ lo>>28}
}

func hashTo16(b []byte) uint128 {
	n := len(b)
	first, last := word(b, 0), word(b, n-8)
	hi, lo := bits.Mul64(first^last^word(secret, 32)^word(secret, 40), prime64x1)
	lo += uint64(n-1) << 54
	last ^= word(secret, 48) ^ word(secret, 56)
	hi += last + uint64(uint32(last))*(prime32x2-1)
	lo ^= bits.ReverseBytes64(hi)
	high, low := bits.Mul64(lo, prime64x2)
	return uint128{hi: finish(high + hi*prime64x2), lo: finish(low)}
}

// mix adds 32 bytes to the sums: the first 16 bytes of x and the first 16 bytes of y.
func (s *uint128) mix(x, y, secret []byte) {
	s.lo += foldedProduct(word(x, 0)^word(secret, 0), word(x, 8)^word(secret, 8))
	s.lo ^= word(y, 0) + word(y, 8)
	s.hi += foldedProduct(word(y, 0)^word(secret, 16), word(y, 8)^word(secret, 24))
	s.hi ^= word(x, 0) + word(x, 8)
}

func (s *uint128) sum(n int) uint128 {
	return uint128{
		hi: -finish(s.lo*prime64x1 + s.hi*prime64x4 + uint64(n)*prime64x2),
		lo: finish(s.lo + s.hi),
	}
}

func hashTo128(b []byte) uint128 {
	n := len(b)
	s := uint128{lo: uint64(n) * prime64x1}
	for i := (n - 1) / 32; i >= 0; i-- {
		s.mix(b[16*i:], b[n-16*(i+1):], secret[32*i:])
	}
	return s.sum(n)
}

func hashTo240(b []byte) uint128 {
	n := len(b)
	s := uint128{lo: uint64(n) * prime64x1}
	for i := range 4 {
		s.mix(b[32*i:], b[32*i+16:], secret[32*i:])
	}
	s = uint128{hi: finish(s.hi), lo: finish(s.lo)}
	for i := 4; i < n/32; i++ {
		s.mix(b[32*i:], b[32*i+16:], secret[32*(i-4)+3:])
	}
	s.mix(b[n-16:], b[n-32:], secret[103:])
	return s.sum(n)
}

// lanes are eight sums of 64 bits. The bytes of an input of more than 240 bytes are added to these
// sums, and the hash is computed from the sums. The input is read in stripes of 64 bytes, and 16
// stripes are a block.
type lanes [8]uint64

func (l *lanes) add(stripe, secret []byte) {
	for i := range l {
		w := word(stripe, 8*i)
		keyed := w ^ word(secret, 8*i)
		l[i^1] += w
		l[i] += uint64(uint32(keyed)) * (keyed >> 32)
	}
}

func (l *lanes) scramble() {
	for i := range l {
		l[i] = (l[i] ^ l[i]>>47 ^ word(secret, 128+8*i)) * prime32x1
	}
}

func (l *lanes) merge(start uint64, secret []byte) uint64 {
	for i := range 4 {
		start += foldedProduct(l[2*i]^word(secret, 16*i), l[2*i+1]^word(secret, 16*i+8))
	}
	return finish(start)
}

func hashLong(b []byte) uint128 {
	const perBlock = 16
	n := len(b)
	l := lanes{prime32x3, prime64x1, prime64x2, prime64x3, prime64x4, prime32x2, prime64x5, prime32x1}
	for i := range (n - 1) / 64 {
		l.add(b[64*i:], secret[8*(i%perBlock):])
		if i%perBlock == perBlock-1 {
			l.scramble()
		}
	}
	l.add(b[n-64:], secret[121:])
	return uint128{hi: l.merge(^(uint64(n) * prime64x2), secret[117:]), lo: l.merge(uint64(n)*prime64x1, secret[11:])}
}
