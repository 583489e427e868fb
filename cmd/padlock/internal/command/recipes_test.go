package command

import (
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/padlock-go/padlock/internal/server"
)

// TestRecipes runs the scripts of testdata/recipes. They write blocks of docs/recipes.md to files
// of the same names with
//
//	recipe FILE…
//
// and run them as they are written there. Locks are kept on a server.
func TestRecipes(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the recipes use a Unix shell")
	}
	text, err := os.ReadFile("../../../../docs/recipes.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := recipes(t, string(text))
	url := server.Redis(t, server.RedisOptions{}).URL()
	p := scripts("testdata/recipes")
	p.Setup = func(env *testscript.Env) error {
		err := setUpScript(env)
		env.Setenv("PADLOCK_STORE", url+"?prefix="+strings.ReplaceAll(env.WorkDir, "/", "-")+":")
		env.Setenv("PATH", env.WorkDir+"/bin"+string(os.PathListSeparator)+env.Getenv("PATH"))
		return err
	}
	p.Cmds["recipe"] = func(ts *testscript.TestScript, neg bool, args []string) {
		for _, name := range args {
			if neg || blocks[name] == "" {
				ts.Fatalf("docs/recipes.md has no block %s", name)
			}
			ts.Check(server.WriteProgram(ts.MkAbs(name), []byte(blocks[name])))
		}
	}
	testscript.Run(t, p)
}

// recipes returns the blocks of a page that have a name.
func recipes(t *testing.T, text string) map[string]string {
	t.Helper()
	blocks := map[string]string{}
	for _, part := range strings.Split(text, "<!-- file: ")[1:] {
		name, rest, _ := strings.Cut(part, " -->\n```")
		_, rest, _ = strings.Cut(rest, "\n")
		body, _, ended := strings.Cut(rest, "```\n")
		if !ended || blocks[name] != "" {
			t.Errorf("the block %s is not read, or is there twice", name)
		}
		blocks[name] = body
	}
	return blocks
}

// Every block with a name is run by a script.
func TestEveryRecipeIsRun(t *testing.T) {
	text, err := os.ReadFile("../../../../docs/recipes.md")
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	scripts, err := os.ReadDir("testdata/recipes")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range scripts {
		script, err := os.ReadFile("testdata/recipes/" + s.Name())
		if err != nil {
			t.Fatal(err)
		}
		all.Write(script)
	}
	for name := range recipes(t, string(text)) {
		if !strings.Contains(all.String(), "recipe "+name+"\n") {
			t.Errorf("no script runs %s", name)
		}
	}
}
