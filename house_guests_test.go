package padlock_test

// guests are the modules of others that each module of ours may import, and
// why. Whoever adds a dependency adds a row and has to say it.
var guests = []guest{
	{"cmd/padlock", "github.com/rogpeppe/go-internal/testscript", true, "the command's tests are scripts that read like documentation"},
}
