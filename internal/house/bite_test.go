package house

import (
	"strings"
	"testing"

	"github.com/padlock-go/padlock/internal/safety"
)

// A bite is a small tree of one file that breaks a rule, or that nearly breaks it.
type bite struct {
	name   string
	check  func(*houseFile) []string
	path   string
	module string
	src    string
	want   string // part of the one message that is expected; "" for none
}

var bites = []bite{
	{"a store knows the face", checkArrows, "stores/memstore/x.go", ".", imports(padlockPath), "imports " + padlockPath},
	{"a store knows another", checkArrows, "stores/redisstore/x.go", "stores/redisstore", imports(padlockPath + "/stores/memstore"), "allow it only driver, storekit, storekit/storeurl, internal/redisconn;"},
	{"a store's test knows the face", checkArrows, "stores/redisstore/x_test.go", "stores/redisstore", imports(padlockPath), ""},
	{"a store's test knows another", checkArrows, "stores/redisstore/x_test.go", "stores/redisstore", imports(padlockPath + "/stores/memstore"), "allow it only"},
	{"the quorum's test", checkArrows, "stores/quorum/x_test.go", ".", imports(padlockPath + "/stores/memstore"), ""},
	{"the face knows a store", checkArrows, "x.go", ".", imports(padlockPath + "/stores/memstore"), "allow it only driver;"},
	{"the face's test does", checkArrows, "x_test.go", ".", imports(padlockPath + "/stores/memstore"), ""},
	{"a store of compare-and-set knows package fast", checkArrows, "storekit/register/x.go", "storekit/register", imports(padlockPath + "/driver/fast"), ""},
	{"an election knows package fast", checkArrows, "election/x.go", ".", imports(padlockPath + "/driver/fast"), "allow it only .;"},
	{"driver knows something", checkArrows, "driver/x.go", ".", imports(padlockPath), "allow it only the standard library;"},
	{"session knows the contract", checkArrows, "web/session/x.go", ".", imports(padlockPath + "/driver"), "allow it only ., web/session/sessionstore"},
	{"the command opens a store itself", checkArrows, "cmd/padlock/x.go", "cmd/padlock", imports(padlockPath + "/stores/memstore"), "allow it only ., driver, newest, observe/history, open"},
	{"a package's own parts", checkArrows, "cmd/padlock/x.go", "cmd/padlock", imports(padlockPath + "/cmd/padlock/internal/job"), ""},
	{"a part looks up", checkArrows, "cmd/padlock/internal/job/x.go", "cmd/padlock", imports(padlockPath + "/open"), ""},
	{"drivertest's part has a row of its own", checkArrows, "drivertest/x.go", ".", imports(padlockPath + "/internal/server"), "allow it only driver, internal/safety;"},
	{"open links no client", checkArrows, "open/x.go", ".", imports(padlockPath + "/stores/redisstore"), "allow it only driver, storekit, storekit/storeurl, stores/memstore, stores/filestore, stores/quorum;"},
	{"open/all opens", checkArrows, "open/all/x.go", "open/all", imports(padlockPath + "/stores/redisstore"), ""},
	{"integration imports all", checkArrows, "internal/integration/x.go", "internal/integration", imports(padlockPath + "/open"), ""},
	{"a package without a row", checkArrows, "util/x.go", ".", imports(padlockPath + "/driver"), "has no row"},
	{"a guest in the root", checkArrows, "x_test.go", ".", imports("golang.org/x/sync/errgroup"), "`go get` of it brings nothing else"},
	{"a guest without a row", checkArrows, "open/all/x.go", "open/all", imports("golang.org/x/sync/errgroup"), "not in the table of guests"},
	{"cgo", checkArrows, "stores/filestore/x.go", ".", imports("C"), "without a C compiler"},
	{"the standard library", checkArrows, "driver/x.go", ".", imports("net/http"), ""},
	{"sleep in a test", checkSleep, "x_test.go", ".", sleeper, "x_test.go:3: time.Sleep in a test"},
	{"sleep by another name", checkSleep, "x_test.go", ".", "import clock \"time\"\nvar f = clock.Sleep", "time.Sleep in a test"},
	{"sleep in code", checkSleep, "x.go", ".", sleeper, ""},
	{"somebody else's sleep", checkSleep, "x_test.go", ".", "func f() { baby.Sleep(1) }", ""},
	{"a fence", checkSafety, "x_test.go", ".", "func f() { if g.Fence <= last { t.Error() } }", "let safety.Rises compare them"},
	{"a fence of etcd", checkSafety, "x_test.go", ".", "func f() { last := g.Fence; if g := h(); last >= g.Fence { say(\"after\", \"x y\") } }", "let safety.Rises"},
	{"a fence that an error tells", checkSafety, "drivertest/x.go", ".", "func f() error { if g.Fence <= *c { return fmt.Errorf(\"after it\") }; return nil }", "let safety.Rises"},
	{"a fence that was put away", checkSafety, "x_test.go", ".", "func f() { b := g.Fence; last.Store(b); if n := take(); n < last.Load() { t.Fatal(n) } }", "let safety.Rises"},
	{"a fence in a case", checkSafety, "x_test.go", ".", "func f() { switch { case h.Fence() < before: t.Error() } }", "let safety.Rises"},
	{"two fences, told", checkSafety, "x_test.go", ".", "func f() { t.Fatalf(\"after %d came %d\", a.Fence, b.Fence()) }", "a message with two fences"},
	{"fences that differ", checkSafety, "x_test.go", ".", "func f() { if a.Fence != b.Fence { t.Errorf(\"%d, %d\", a.Fence, b.Fence) } }", ""},
	{"a fence and a limit", checkSafety, "x_test.go", ".", "func f() { if a.Fence >= driver.MaxFence { t.Error() } }", ""},
	{"a fence in a store", checkSafety, "x_test.go", ".", "func f() error { if a.Fence <= b.Fence { return errHeld }; return nil }", ""},
	{"a fence in a product", checkSafety, "x.go", ".", "func f() error { if a.Fence <= b.Fence { return fmt.Errorf(\"old fence\") }; return nil }", ""},
	{"a fence, told by the helper", checkSafety, "x_test.go", ".", "func f() { if err != nil || !safety.Rises(t, a.Fence, b.Fence) { t.Fatal(a.Fence, b.Fence) } }", ""},
	{"two inside", checkSafety, "x_test.go", ".", "func f() { if n := inside.Add(1); n != 1 { t.Error(n) } }", "say it with safety.TwoHold"},
	{"two in a slot", checkSafety, "x_test.go", ".", "func f() { if busy[i].Swap(true) { t.Error() } }", "safety.TwoHold"},
	{"two with a mutex", checkSafety, "x_test.go", ".", "func f() { if !mu.TryLock() { t.Error() } }", "safety.TwoHold"},
	{"two counted", checkSafety, "x_test.go", ".", "func f() { if n++; n > 1 { t.Error() } }", "safety.TwoHold"},
	{"two, told by the helper", checkSafety, "x_test.go", ".", "func f() { if inside.Add(1) > 1 { safety.TwoHold(t, \"a b\") } }", ""},
	{"before the end", checkSafety, "x_test.go", ".", "func f() { if err == nil && time.Now().Before(until) { t.Error() } }", "safety.TooEarly"},
	{"an end after now", checkSafety, "x_test.go", ".", "func f() { if l.end.After(time.Now()) { t.Error() } }", "safety.TooEarly"},
	{"before the end, told by the helper", checkSafety, "x_test.go", ".", "func f() { if time.Now().Before(until) { safety.TooEarly(t, \"a b\") } }", ""},
	{"a fence in Python", checkSafety, "clients/python/tests/x.py", ".", "self.assertGreater(second.fence, first.fence)", "the safety file beside the test"},
	{"a fence in JavaScript", checkSafety, "clients/node/test/x.js", ".", "assert((await second).fence > first.fence);", "the safety file"},
	{"a fence in a client", checkSafety, "clients/node/lib/x.js", ".", "if (a.fence > b.fence) return;", ""},
	{"the helper in Python", checkSafety, "clients/python/tests/x.py", ".", "safety.rises(self, second.fence, first.fence)", ""},
	{"the mark", checkSafety, "x_test.go", ".", "func f() { t.Error(\"SAFE\" + \"TY: x\"); t.Error(\"" + safety.Mark + "x\") }", "the mark of broken safety"},
	{"61 lines", checkFuncLength, "x_test.go", ".", "func f() {\n" + strings.Repeat("g()\n", 61) + "}", "x_test.go:2: a function of 61 lines"},
	{"60 lines", checkFuncLength, "x.go", ".", "func f() {\n" + strings.Repeat("g()\n", 60) + "}", ""},
	{"a value of 61 lines", checkFuncLength, "x.go", ".", "var f = func() {\n" + strings.Repeat("g()\n", 61) + "}", "a function of 61 lines"},
	{"501 lines", checkFileLength, "x.go", ".", strings.Repeat("\n", 500), "a file of 501 lines"},
	{"long prose", checkFileLength, "docs/x.md", ".", strings.Repeat("\n", 900), ""},
	{"a long script", checkFileLength, "stores/redisstore/acquire.lua", "stores/redisstore", strings.Repeat("\n", 500), "a file of 501 lines"},
	{"an exported function", checkDocs, "x.go", ".", "func F() {}", "function F has no comment"},
	{"an exported method", checkDocs, "x.go", ".", "func (*T[K]) M() {}", "function M has no comment"},
	{"a method of a hidden type", checkDocs, "x.go", ".", "func (t) M() {}", ""},
	{"a well-known method", checkDocs, "x.go", ".", "func (T) String() string { return \"\" }", ""},
	{"an exported type", checkDocs, "x.go", ".", "type T int", "type T has no comment"},
	{"a group of types", checkDocs, "x.go", ".", "// Things.\ntype (\nT int\n)", "type T has no comment"},
	{"an exported constant", checkDocs, "x.go", ".", "const C = 1", "const C has no comment"},
	{"a group of constants", checkDocs, "x.go", ".", "// Kinds.\nconst (\nA = 1\nB = 2\n)", ""},
	{"an exported variable", checkDocs, "x.go", ".", "var V int", "var V has no comment"},
	{"an interface of two methods", checkDocs, "x.go", ".", "// T is.\ntype T interface { A(); b() }", "method A has no comment"},
	{"an interface of one method", checkDocs, "x.go", ".", "// T is.\ntype T interface { A() }", ""},
	{"an internal package", checkDocs, "a/internal/x.go", ".", "func F() {}", ""},
	{"a path of the machine", checkMachine, "docs/x.md", ".", "see " + "/wor" + "k/main", "docs/x.md:2: "},
	{"a host of packages", checkMachine, "x.json", ".", "https://registry" + ".example.org", "no host of packages"},
	{"half a table", checkTables, "docs/x.md", ".", "| a |\n|---|\n| b |\n\n| c |\n", "docs/x.md:6: "},
	{"two tables", checkTables, "docs/x.md", ".", "| a |\n|---|\n| b |\n\n| c |\n|:--|\n| d |\n", ""},
	{"a row in a block of code", checkTables, "docs/x.md", ".", "```\n\n| c |\n```\n", ""},
	{"a harmless path", checkMachine, "docs/x.md", ".", "/var/lib/padlock", ""},
}

// sleeper is put together from two parts. So a search for the call does not find this line.
const sleeper = "import \"time\"\nfunc f() { time" + ".Sleep(1) }"

func imports(target string) string { return "import _ \"" + target + "\"" }

// TestHouseRulesBite breaks each rule once, and nearly breaks it once.
func TestHouseRulesBite(t *testing.T) {
	toRoot()
	for _, b := range bites {
		t.Run(b.name, func(t *testing.T) {
			f, err := parseHouse(b.path, b.module, []byte("package p\n"+b.src))
			if err != nil {
				t.Fatal(err)
			}
			expect(t, b.check(f), b.want)
		})
	}
}

// expect fails the test unless there is one message and it contains the given text. With "" there
// must be no message.
func expect(t *testing.T, got []string, want string) {
	t.Helper()
	switch {
	case want == "" && len(got) > 0:
		t.Errorf("reported without a reason: %q", got)
	case want != "" && (len(got) != 1 || !strings.Contains(got[0], want)):
		t.Errorf("got %q, want one that says %q", got, want)
	}
}

func TestHousePackageDocsBite(t *testing.T) {
	bare, err1 := parseHouse("a/x.go", ".", []byte("package a"))
	said, err2 := parseHouse("b/x.go", ".", []byte("// Package b is.\npackage b"))
	also, err3 := parseHouse("b/y.go", ".", []byte("package b"))
	if err1 != nil || err2 != nil || err3 != nil {
		t.Fatal(err1, err2, err3)
	}
	expect(t, checkPackageDocs([]*houseFile{bare, said, also}), "package a has no comment")
}

func TestHouseGuestsBite(t *testing.T) {
	f, err := parseHouse("stores/pgadvisory/x.go", "stores/pgadvisory", []byte("package p\n"+imports("example.org/client/v2/part")))
	if err != nil {
		t.Fatal(err)
	}
	files := []*houseFile{f}
	expect(t, checkGuests(files, []guest{{"stores/pgadvisory", "example.org/client/v2", false, "the client"}}), "")
	expect(t, checkGuests(files, []guest{{"stores/pgadvisory", "example.org/client", false, ""}}), "has no reason")
	expect(t, checkGuests(files, []guest{{"open", "example.org/client/v2", false, "the client"}}), "nothing in open imports")
}

const goodMod = "module x\n\ngo 1.26\n\nrequire (\n\t" + padlockPath + " v0.0.0 // indirect\n)\n\nreplace " + padlockPath + " => ..\n"

var modBites = []struct{ name, root, sub, work, listed, want string }{
	{"all is well", "go 1.25", goodMod, "go 1.26\nuse (\n.\n./open\n)", ". open", ""},
	{"the root requires", "go 1.25\nrequire a.org/b v1.0.0", goodMod, "go 1.26\nuse ./open", ". open", "requires a.org/b"},
	{"the root is as new as the rest", "go 1.26", goodMod, "go 1.26\nuse ./open", ". open", "is not older than go.work's"},
	{"newer than the installed", "go 1.25", "go 1.99\n", "go 1.26\nuse ./open", ". open", "newer than the installed go1.26.8"},
	{"not listed", "go 1.25", "go 1.26\n", "go 1.26\nuse ./open", ".", "modules.txt does not list"},
	{"listed, but gone", "go 1.25", goodMod, "go 1.26\nuse ./open", ". open mystore", "mystore has no go.mod"},
	{"not in the workspace", "go 1.25", goodMod, "go 1.26", ". open", "go.work does not use"},
	{"tagged too early", "go 1.25", goodMod, "go 1.26\nuse ./open", "open .", "stands before ., which it requires"},
	{"no replace", "go 1.25", "go 1.26\nrequire " + padlockPath + " v0.0.0", "go 1.26\nuse ./open", ". open", "without a replace line"},
}

func TestHouseModulesBite(t *testing.T) {
	for _, b := range modBites {
		t.Run(b.name, func(t *testing.T) {
			mods := []goMod{parseMod(".", b.root), parseMod("open", b.sub)}
			expect(t, checkMods(mods, parseMod(".", b.work), strings.Fields(b.listed), "go1.26.8"), b.want)
		})
	}
	_, complaints := parseModules("# comment\n. yes\nopen perhaps\n")
	expect(t, complaints, "modules.txt:3")
}
