package phpcodec_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/padlock-go/padlock/web/session/phpcodec"
)

var handlers = []phpcodec.Handler{phpcodec.PHP, phpcodec.PHPSerialize, phpcodec.PHPBinary}

// A fixture is a session that PHP 8.2 wrote: testdata/sessions.php.
type fixture struct {
	Name    string
	Handler phpcodec.Handler
	Data    []byte
	Values  [][2]string // key, base64 of the value serialised alone; nil if values share references
}

func fixtures(t testing.TB) []fixture {
	t.Helper()
	data, err := os.ReadFile("testdata/fixtures.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	var all []fixture
	for line := range bytes.Lines(data) {
		var f fixture
		if err := json.Unmarshal(line, &f); err != nil {
			t.Fatal(err)
		}
		all = append(all, f)
	}
	if len(all) != 45 {
		t.Fatalf("%d fixtures", len(all))
	}
	return all
}

func (f *fixture) parse(t testing.TB) *phpcodec.Document {
	t.Helper()
	d, err := phpcodec.Parse(f.Handler, f.Data)
	if err != nil {
		t.Fatalf("%s in %s: %v", f.Name, f.Handler, err)
	}
	return d
}

func encode(t testing.TB, d *phpcodec.Document) []byte {
	t.Helper()
	b, err := d.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// runPHP runs a command of testdata/sessions.php with real PHP. PHP answers each line with one
// line.
func runPHP(t *testing.T, h phpcodec.Handler, command string, lines []string, ini ...string) [][]byte {
	t.Helper()
	php, err := exec.LookPath("php")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("there is no php here, and CI must have it: install php-cli")
		}
		t.Skip("there is no php here: install php-cli to compare with it")
	}
	args := []string{"-d", "session.serialize_handler=" + string(h), "-d", "session.use_cookies=0", "-d", "session.cache_limiter=", "-d", "session.save_path=" + t.TempDir()}
	for _, i := range ini {
		args = append(args, "-d", i)
	}
	cmd := exec.Command(php, append(args, "testdata/sessions.php", command)...)
	cmd.Stdin = strings.NewReader(strings.Join(lines, "\n") + "\n")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil || stderr.Len() > 0 {
		t.Fatalf("php: %v\n%s", err, stderr.String())
	}
	var answers [][]byte
	sc := bufio.NewScanner(bytes.NewReader(out))
	sc.Buffer(nil, 64<<20)
	for sc.Scan() {
		answers = append(answers, bytes.Clone(sc.Bytes()))
	}
	return answers
}

// phpSession is a session as PHP has read it.
type phpSession struct {
	OK     bool
	Keys   []string
	Values [][]byte // serialised each by itself
	Data   []byte   // encoded again
}

func askPHP(t *testing.T, h phpcodec.Handler, sessions [][]byte, ini ...string) []phpSession {
	t.Helper()
	var lines []string
	for _, s := range sessions {
		b, _ := json.Marshal(s)
		lines = append(lines, strings.Trim(string(b), `"`))
	}
	var all []phpSession
	for _, line := range runPHP(t, h, "roundtrip", lines, ini...) {
		var s phpSession
		if err := json.Unmarshal(line, &s); err != nil {
			t.Fatal(err)
		}
		all = append(all, s)
	}
	if len(all) != len(sessions) {
		t.Fatalf("php answered %d of %d", len(all), len(sessions))
	}
	return all
}
