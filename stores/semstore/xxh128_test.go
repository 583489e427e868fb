package semstore

import (
	"encoding/hex"
	"os/exec"
	"strings"
	"testing"
)

// pattern returns the input of n bytes that the vectors are about: 0, 7, 14, … modulo 251.
func pattern(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i * 7 % 251)
	}
	return b
}

// The inputs have every length that a name can have, and some greater lengths. PHP hashes the same
// inputs during the test.
func TestXXH128IsPHPs(t *testing.T) {
	php, err := exec.LookPath("php")
	if err != nil {
		missing(t, "php", err)
	}
	const script = `for ($n = 0; $n <= 2100; $n++) {
		for ($s = '', $i = 0; $i < $n; $i++) $s .= chr($i * 7 % 251);
		echo hash('xxh128', $s), "\n";
	}`
	out, err := exec.Command(php, "-r", script).Output()
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Fields(string(out))
	if len(lines) != 2101 {
		t.Fatalf("PHP printed %d hashes", len(lines))
	}
	for n, want := range lines {
		if got := xxh128(pattern(n)); hex.EncodeToString(got[:]) != want {
			t.Errorf("%d bytes: %x, PHP has %s", n, got, want)
		}
	}
}

func TestKeys(t *testing.T) {
	if md5, xxh := uint32(MD5.key("user:42")), uint32(XXH128.key("user:42")); md5 != 0x18dfda56 || xxh != 0xe7cf6387 {
		t.Errorf("user:42 has the keys %#x and %#x", md5, xxh)
	}
}

// golden are digests that PHP 8.2 printed for pattern(n).
var golden = []struct {
	n      int
	digest string
}{
	{0, "99aa06d3014798d86001c324468d497f"},
	{1, "a6cd5e9392000f6ac44bdff4074eecdb"},
	{2, "b519c2793d8967669093381c8763d62e"},
	{3, "656e81c56e41fe02c3489259e968ad9e"},
	{4, "ab5c3e7474d809db81a65295de8e7dde"},
	{8, "e4b9dd0b66ff3c50ebabbd0695002ff6"},
	{9, "82ddc95bc76007671c69c3f04aaed08c"},
	{16, "ddf6c1254d70f76794eaa17b20756f46"},
	{17, "263f67af63088041735fe434ded90c3c"},
	{32, "a86b514658f976a5407920045a9a834c"},
	{33, "a943d80ce26ed2928b59b4dfba3c9de4"},
	{64, "d547448717805e49ab83f2ba7371c91f"},
	{65, "4545962d25065c6689fdc8cc6c5a9fbc"},
	{96, "1e7c5919a326305dea3425146d151833"},
	{97, "2c6cb8a421ba64c7e991df1fb06bddce"},
	{128, "381610c474b8adfb2dfb73305de1f91a"},
	{129, "4e05eed4427255d51f8b5092c9ba3be8"},
	{240, "17ffe035d71c1ec8e6bf81617aad6c4a"},
	{241, "29bc1e9cffb6d79bc614c8c3575348c1"},
	{512, "f9a147f95e48ea8b95e4fda72852917f"},
	{1024, "07fe8eadab1cf098f22ef3dc84ff47ea"},
	{1025, "c89d767cdacc7c7643f869a83769a435"},
	{2048, "e55329394a6e046b3d2649f662a2e191"},
}

func TestXXH128Golden(t *testing.T) {
	for _, v := range golden {
		if got := xxh128(pattern(v.n)); hex.EncodeToString(got[:]) != v.digest {
			t.Errorf("%d bytes: %x, want %s", v.n, got, v.digest)
		}
	}
}
