package house

import (
	"go/ast"
	"regexp"
	"strings"
)

// unsafe finds messages about a second holder, an early grant or a falling fence. harmless are
// messages with such words about something else.
var (
	unsafe = regexp.MustCompile(`(?i)\btwo (hold|have|owners|leaders|holders)\b|both (hold|have|lead) |leads while|` +
		`granted (too early|before)|fences? (%d|went|fell|comes) (comes )?(after|from)|the fence fell`)
	harmless = regexp.MustCompile(`(?i)of the two owners|adopted|promoted|demoted|forgotten|broken with|Break of|after the hand-over|` +
		`after promotion|a permit that two have|with one fence|which %d members`)
)

// checkSafety reports messages of tests about a broken promise of safety that do not begin with
// SAFETY:. The gate never excuses a test that prints this word.
func checkSafety(f *houseFile) (found []string) {
	if f.ast == nil || !f.test() || f.pkg() == "internal/gate" {
		return nil
	}
	ast.Inspect(f.ast, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || len(call.Args) == 0 {
			return true
		}
		to, isMethod := call.Fun.(*ast.SelectorExpr)
		text, isText := call.Args[0].(*ast.BasicLit)
		if !isMethod || !isText || !strings.HasPrefix(to.Sel.Name, "Error") && !strings.HasPrefix(to.Sel.Name, "Fatal") {
			return true
		}
		if by, ok := to.X.(*ast.Ident); ok && (by.Name == "fmt" || by.Name == "errors") {
			return true
		}
		if unsafe.MatchString(text.Value) && !harmless.MatchString(text.Value) && !strings.HasPrefix(text.Value, `"SAFETY: `) {
			found = append(found, f.position(call.Pos())+": a broken promise of safety: begin the message with \"SAFETY: \"")
		}
		return true
	})
	return found
}
