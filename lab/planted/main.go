// Command planted draws bugs of one line from a seed, and plants one of them into the tree. It shows
// which tests find a bug, and how soon:
//
//	go run ./planted -seed 7 -n 15 DIR…          list 15 bugs in the packages at DIR
//	go run ./planted -seed 7 -n 15 -plant 3 DIR… plant the third of them
//
// Run it in lab. DIR, or a file of Go, is relative to the root of the tree. A bug compiles, and changes the code of a
// function: a comparison, a sign, an operator of logic, a condition, or a call that is left out.
// Whether it changes what the program does is for a person to say.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"log"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// A bug replaces a part of a file.
type bug struct {
	file, what string
	from, to   int // offsets in the file
	text       string
	line       int
}

func main() {
	log.SetFlags(0)
	seed := flag.Uint64("seed", 0, "the seed")
	n := flag.Int("n", 15, "how many bugs to draw")
	plant := flag.Int("plant", 0, "the number of the bug to plant; 0 only lists them")
	flag.Parse()
	if err := run(*seed, *n, *plant, flag.Args()); err != nil {
		log.Fatal(err)
	}
}

func run(seed uint64, n, plant int, dirs []string) error {
	var all []bug
	for _, dir := range dirs {
		if !strings.HasSuffix(dir, ".go") {
			dir += "/*.go"
		}
		names, err := filepath.Glob(filepath.Join("..", dir))
		if err != nil {
			return err
		}
		slices.Sort(names)
		for _, name := range names {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			found, err := bugsIn(name)
			if err != nil {
				return err
			}
			all = append(all, found...)
		}
	}
	if len(all) < n {
		return fmt.Errorf("only %d places", len(all))
	}
	random := rand.New(rand.NewPCG(seed, 0))
	random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	for i, drawn := 0, 0; drawn < n && i < len(all); i++ {
		b := all[i]
		old, err := os.ReadFile(b.file)
		if err != nil {
			return err
		}
		changed, err := b.in(old)
		if err != nil {
			continue
		}
		if err := os.WriteFile(b.file, changed, 0o644); err != nil {
			return err
		}
		compiles := exec.Command("go", "build", "-o", os.DevNull, "./"+filepath.Dir(b.file)).Run() == nil
		if compiles {
			drawn++
			fmt.Printf("%d\t%s:%d\t%s\n", drawn, strings.TrimPrefix(b.file, "../"), b.line, b.what)
			if drawn == plant {
				return nil
			}
		}
		if err := os.WriteFile(b.file, old, 0o644); err != nil {
			return err
		}
	}
	if plant > 0 {
		return errors.New("there are not so many")
	}
	return nil
}

func (b bug) in(src []byte) ([]byte, error) {
	return format.Source(slices.Concat(src[:b.from], []byte(b.text), src[b.to:]))
}

// operators are what an operator is replaced by.
var operators = map[token.Token]token.Token{
	token.LSS: token.LEQ, token.LEQ: token.LSS, token.GTR: token.GEQ, token.GEQ: token.GTR, token.EQL: token.NEQ, token.NEQ: token.EQL,
	token.ADD: token.SUB, token.SUB: token.ADD, token.LAND: token.LOR, token.LOR: token.LAND,
}

// bugsIn returns all bugs that the file may get, in the order of their places.
func bugsIn(name string) (found []bug, err error) {
	src, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	if bytes.HasPrefix(src, []byte("//go:build")) { // the machine may not compile it
		return nil, nil
	}
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, name, src, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	at := func(p token.Pos) int { return fset.Position(p).Offset }
	add := func(from, to token.Pos, text string) {
		line := strings.Split(string(src), "\n")[fset.Position(from).Line-1]
		found = append(found, bug{
			file: name, from: at(from), to: at(to), text: text, line: fset.Position(from).Line,
			what: fmt.Sprintf("%q becomes %q in: %s", src[at(from):at(to)], text, strings.TrimSpace(line)),
		})
	}
	for _, d := range f.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok || fn.Body == nil {
			continue
		}
		ast.Inspect(fn.Body, func(node ast.Node) bool {
			switch x := node.(type) {
			case *ast.BinaryExpr:
				if other, ok := operators[x.Op]; ok {
					add(x.OpPos, x.OpPos+token.Pos(len(x.Op.String())), other.String())
				}
			case *ast.UnaryExpr:
				if x.Op == token.NOT {
					add(x.OpPos, x.OpPos+1, "")
				}
			case *ast.IfStmt:
				add(x.Cond.Pos(), x.Cond.End(), "false && ("+string(src[at(x.Cond.Pos()):at(x.Cond.End())])+")")
			case *ast.ExprStmt:
				add(x.Pos(), x.End(), "")
			case *ast.IncDecStmt:
				add(x.Pos(), x.End(), "")
			}
			return true
		})
	}
	return found, nil
}
