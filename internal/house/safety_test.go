package house

import (
	"fmt"
	"go/ast"
	"go/token"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/padlock-go/padlock/internal/safety"
)

// checkSafety reports checks of tests that a fence rises, that one caller holds a lock, or that
// nothing is granted too early, if they do not use package safety. The gate excuses no test that
// prints the mark of that package. The check recognises them by the shape of the code, never by
// the words of a message:
//
//   - a fence is a selector, a call or a variable that is called so, or a variable that got its
//     value from one. A check compares two of them by order, and then reports something, or it
//     reports two of them and has not compared them for equality;
//   - two hold if a counter that was just raised (Add(1), n++) is compared, if TryLock or
//     CompareAndSwap fails, or if Swap returns what somebody has put there;
//   - too early is a comparison of now with a time that is called an end.
//
// It does not see a comparison that another function makes, fences whose names do not say so and
// that come from a function's parameters, and a list of holders that is compared afterwards.
func checkSafety(f *houseFile) (found []string) {
	if strings.HasPrefix(f.path, "clients/") && !strings.HasPrefix(path.Base(f.path), "safety.") {
		return checkClientSafety(f)
	}
	if f.ast == nil || !checksSafety(f) {
		return nil
	}
	for _, lit := range marks(f) {
		found = append(found, f.position(lit.Pos())+": the mark of broken safety: call a function of internal/safety, which prints it")
	}
	for _, decl := range f.ast.Decls {
		fences := fencesOf(decl)
		v := &safetyVisitor{fences: fences, say: func(at token.Pos, what string) {
			found = append(found, f.position(at)+": "+what)
		}}
		ast.Walk(v, decl)
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// compared finds two fences that a line of Python or JavaScript compares by order.
var compared = regexp.MustCompile(`(?i)fence\)* *[<>]=? *\(*[\w. ]*fence|assert(Greater|Less)\w*\([^,]*fence.*, *[^,]*fence|sorted\([^,]*fences`)

// checkClientSafety looks at the tests of a client, which have a helper of their own.
func checkClientSafety(f *houseFile) (found []string) {
	dir := path.Base(f.pkg())
	if dir != "test" && dir != "tests" {
		return nil
	}
	for i, line := range strings.Split(string(f.src), "\n") {
		if compared.MatchString(line) || strings.Contains(line, safety.Mark) {
			found = append(found, fmt.Sprintf("%s:%d: a check that a fence rises, or the mark of broken safety: call a function of the safety file beside the test", f.path, i+1))
		}
	}
	return found
}

// checksSafety reports whether the file belongs to a test.
func checksSafety(f *houseFile) bool {
	pkg := f.pkg()
	if pkg == "internal/safety" || pkg == "internal/house" {
		return false
	}
	return f.test() || pkg == "drivertest" || strings.HasPrefix(pkg, "lab/") || importName(f.ast, "testing") != ""
}

// marks returns the literals of a file that contain the mark of package safety.
func marks(f *houseFile) (found []*ast.BasicLit) {
	ast.Inspect(f.ast, func(n ast.Node) bool {
		if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING && strings.Contains(lit.Value, strings.TrimSpace(safety.Mark)) {
			found = append(found, lit)
		}
		return true
	})
	return found
}

// A safetyVisitor walks through a declaration. It carries the conditions around a node.
type safetyVisitor struct {
	fences map[string]bool
	equal  bool // a condition around the node compares a fence for equality, or package safety did
	say    func(at token.Pos, what string)
}

func (v *safetyVisitor) Visit(n ast.Node) ast.Visitor {
	switch n := n.(type) {
	case *ast.IfStmt:
		v.judge(n.Init, []ast.Expr{n.Cond}, n.Body)
		return v.inside(n.Cond)
	case *ast.CaseClause:
		v.judge(nil, n.List, &ast.BlockStmt{List: n.Body})
		return v.inside(n.List...)
	case *ast.CallExpr:
		if !v.equal && isReport(n) && v.reported(n) > 1 {
			v.say(n.Pos(), "a message with two fences: let safety.Rises compare them")
		}
	}
	return v
}

// inside returns the visitor for what a condition guards.
func (v *safetyVisitor) inside(conditions ...ast.Expr) ast.Visitor {
	inner := *v
	for _, cond := range conditions {
		inner.equal = inner.equal || mentions(cond, "safety")
		ast.Inspect(cond, func(n ast.Node) bool {
			if b, ok := n.(*ast.BinaryExpr); ok && (b.Op == token.NEQ || b.Op == token.EQL) && (v.isFence(b.X) || v.isFence(b.Y)) {
				inner.equal = true
			}
			return true
		})
	}
	return &inner
}

// judge looks at a condition and what it guards.
func (v *safetyVisitor) judge(init ast.Stmt, conditions []ast.Expr, body *ast.BlockStmt) {
	if !reports(body) {
		return
	}
	raised, counted := "", ""
	switch s := init.(type) {
	case *ast.AssignStmt:
		if len(s.Rhs) == 1 && isRaise(s.Rhs[0]) {
			raised = name(s.Lhs[0])
		}
	case *ast.IncDecStmt:
		counted = name(s.X)
	}
	for _, cond := range conditions {
		ast.Inspect(cond, func(n ast.Node) bool {
			switch e := n.(type) {
			case *ast.BinaryExpr:
				v.binary(e, raised, counted)
			case *ast.UnaryExpr:
				if call, ok := e.X.(*ast.CallExpr); ok && e.Op == token.NOT && (method(call) == "TryLock" || method(call) == "CompareAndSwap") {
					v.say(e.Pos(), "a check that one holds: say it with safety.TwoHold")
				}
			case *ast.CallExpr:
				if method(e) == "Swap" && takes(e, "true") {
					v.say(e.Pos(), "a check that one holds: say it with safety.TwoHold")
				}
				if isEarly(e) {
					v.say(e.Pos(), "a check that nothing comes too early: say it with safety.TooEarly")
				}
			}
			return true
		})
	}
}

// binary looks at a comparison. raised is the name of what Add(1) has returned just before, and
// counted that of what ++ has raised, which often counts something else, so it is compared with 1.
func (v *safetyVisitor) binary(e *ast.BinaryExpr, raised, counted string) {
	order := e.Op == token.LSS || e.Op == token.LEQ || e.Op == token.GTR || e.Op == token.GEQ
	switch {
	case order && (v.isFence(e.X) && isValue(e.Y) || v.isFence(e.Y) && isValue(e.X)):
		v.say(e.Pos(), "a check that a fence rises: let safety.Rises compare them")
	case (order || e.Op == token.NEQ) && (isRaise(e.X) || isSwap(e.X) && name(e.Y) == "nil" || raised != "" && name(e.X) == raised ||
		counted != "" && name(e.X) == counted && isOne(e.Y)):
		v.say(e.Pos(), "a check that one holds: say it with safety.TwoHold")
	}
}

// reported counts the fences among the arguments of a report.
func (v *safetyVisitor) reported(call *ast.CallExpr) (n int) {
	for _, arg := range call.Args {
		if v.isFence(arg) {
			n++
		}
	}
	return n
}

func (v *safetyVisitor) isFence(e ast.Expr) bool { return isFence(e, v.fences) }

// isFence reports whether the expression is a fence by its shape.
func isFence(e ast.Expr, known map[string]bool) bool {
	switch e := e.(type) {
	case *ast.Ident:
		return known[e.Name] || isFenceName(e.Name)
	case *ast.SelectorExpr:
		return known["."+e.Sel.Name] || isFenceName(e.Sel.Name)
	case *ast.ParenExpr:
		return isFence(e.X, known)
	case *ast.IndexExpr:
		return isFence(e.X, known)
	case *ast.TypeAssertExpr:
		return isFence(e.X, known)
	case *ast.StarExpr:
		return isFence(e.X, known)
	case *ast.BinaryExpr:
		return (e.Op == token.ADD || e.Op == token.SUB) && (isFence(e.X, known) || isFence(e.Y, known))
	case *ast.CallExpr:
		return isFenceCall(e, known)
	}
	return false
}

// isValue reports whether a fence may be compared with the expression: it is no number, no limit
// and no time.
func isValue(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.Ident, *ast.SelectorExpr:
		s := strings.ToLower(name(e))
		return !strings.Contains(s, "max") && !strings.Contains(s, "none") && s != "now"
	case *ast.IndexExpr:
		return isValue(e.X)
	case *ast.ParenExpr:
		return isValue(e.X)
	case *ast.StarExpr:
		return isValue(e.X)
	case *ast.BinaryExpr:
		return isValue(e.X)
	case *ast.CallExpr:
		return !mentions(e, "time")
	}
	return false
}

// mentions reports whether the node uses a package.
func mentions(n ast.Node, pkg string) (found bool) {
	ast.Inspect(n, func(n ast.Node) bool {
		to, ok := n.(*ast.SelectorExpr)
		found = found || ok && name(to.X) == pkg
		return !found
	})
	return found
}

// isFenceCall sees Fence(), fenceOf(x), uint64(fence), last.Load(), last.Swap(fence) and
// number("fence").
func isFenceCall(e *ast.CallExpr, known map[string]bool) bool {
	if isFenceName(name(e.Fun)) || takes(e, `"fence"`) {
		return true
	}
	switch m := method(e); m {
	case "Load", "Swap":
		return isFence(e.Fun.(*ast.SelectorExpr).X, known)
	case "":
		keeps := slices.Contains([]string{"uint64", "int64", "max", "min"}, name(e.Fun))
		return keeps && slices.ContainsFunc(e.Args, func(arg ast.Expr) bool { return isFence(arg, known) })
	}
	return false
}

// isFenceName reports whether something of this name is a fence. A limit is none.
func isFenceName(s string) bool {
	s = strings.ToLower(s)
	return strings.Contains(s, "fence") && !strings.Contains(s, "max") && !strings.Contains(s, "none") && !strings.HasPrefix(s, "err") &&
		!strings.Contains(s, "keep") && !strings.Contains(s, "fenced")
}

// fencesOf finds the variables of a declaration that get a fence. Fields begin with a dot.
func fencesOf(decl ast.Decl) map[string]bool {
	known := map[string]bool{}
	for range 3 { // a variable may get its value from a variable that is found later
		ast.Inspect(decl, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.AssignStmt:
				for i, right := range n.Rhs {
					if i < len(n.Lhs) && isFence(right, known) {
						note(n.Lhs[i], known)
					}
				}
			case *ast.CallExpr:
				if m := method(n); (m == "Swap" || m == "Store") && len(n.Args) > 0 && isFence(n.Args[len(n.Args)-1], known) {
					note(n.Fun.(*ast.SelectorExpr).X, known)
				}
			}
			return true
		})
	}
	return known
}

func note(e ast.Expr, known map[string]bool) {
	switch e := e.(type) {
	case *ast.Ident:
		if e.Name != "_" {
			known[e.Name] = true
		}
	case *ast.SelectorExpr:
		known["."+e.Sel.Name] = true
	case *ast.IndexExpr:
		note(e.X, known)
	case *ast.StarExpr:
		note(e.X, known)
	}
}

// isRaise reports whether the expression is a counter that is just raised, as in inside.Add(1).
func isRaise(e ast.Expr) bool {
	call, ok := e.(*ast.CallExpr)
	return ok && (method(call) == "Add" || strings.HasPrefix(method(call), "AddInt")) && takes(call, "1")
}

func isOne(e ast.Expr) bool {
	lit, ok := e.(*ast.BasicLit)
	return ok && lit.Value == "1"
}

func isSwap(e ast.Expr) bool {
	call, ok := e.(*ast.CallExpr)
	return ok && method(call) == "Swap"
}

// isEarly sees time.Now().Before(end), end.After(time.Now()) and time.Until(end).
func isEarly(call *ast.CallExpr) bool {
	to, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || len(call.Args) != 1 {
		return false
	}
	return to.Sel.Name == "Before" && isNow(to.X) && isEnd(call.Args[0]) ||
		to.Sel.Name == "After" && isNow(call.Args[0]) && isEnd(to.X)
}

func isNow(e ast.Expr) bool {
	if call, ok := e.(*ast.CallExpr); ok {
		e = call.Fun
	}
	return strings.EqualFold(name(e), "now")
}

func isEnd(e ast.Expr) bool {
	s := strings.ToLower(name(e))
	return strings.Contains(s, "until") || strings.Contains(s, "end") || strings.Contains(s, "expire") || strings.Contains(s, "deadline")
}

// isReport reports whether the call says something: a call with a text, or of a function with
// such a name.
func isReport(call *ast.CallExpr) bool {
	if mentions(call, "safety") {
		return false
	}
	for _, m := range []string{"Error", "Errorf", "Fatal", "Fatalf"} {
		if strings.EqualFold(method(call), m) {
			return true
		}
	}
	if len(call.Args) == 0 {
		return false
	}
	return slices.ContainsFunc(call.Args, func(e ast.Expr) bool {
		lit, ok := e.(*ast.BasicLit)
		return ok && lit.Kind == token.STRING && strings.Contains(lit.Value, " ")
	})
}

// reports reports whether a block says something, and not through package safety.
func reports(body *ast.BlockStmt) (found bool) {
	ast.Inspect(body, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		found = found || ok && isReport(call)
		return !found
	})
	return found
}

// method returns the name of the method or the function of a package that is called.
func method(call *ast.CallExpr) string {
	if to, ok := call.Fun.(*ast.SelectorExpr); ok {
		return to.Sel.Name
	}
	return ""
}

// name returns the last name of an expression.
func name(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	}
	return ""
}

// takes reports whether the last argument of a call is this literal.
func takes(call *ast.CallExpr, text string) bool {
	if len(call.Args) == 0 {
		return false
	}
	switch last := call.Args[len(call.Args)-1].(type) {
	case *ast.BasicLit:
		return last.Value == text
	case *ast.Ident:
		return last.Name == text
	}
	return false
}
