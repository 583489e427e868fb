package house

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/doc/comment"
	"os"
	"path"
	"regexp"
	"strings"
	"testing"
)

// bookPage is made from the comments of the code, so that it says what they say: `make golden`.
const bookPage = "docs/internals/book.md"

// A chapter is one file, with the names that a lock meets there: types with their tables, and
// functions. The names are in the order in which they are read.
type chapter struct{ title, intro, file, names string }

var book = []chapter{
	{
		"The call", "A caller asks for a name. The options are read, and every error in them is found before anything is sent.",
		"acquire.go", "Locker.Acquire Locker.acquire",
	},
	{
		"The attempt", "An attempt has one token at a time, and sends one request at a time. What becomes of a request without a reply is decided here.",
		"attempt.go", "attempt attempt.prepare attempt.askOnce attempt.tryStore attempt.acceptGrant attempt.giveUpToken attempt.renewToken",
	},
	{
		"The store takes the name", "On Redis this is one script. The short one serves a free name; everything else is a matter of the full one.",
		"stores/redisstore/grant.go", "Store.Acquire Store.confirmed Store.fullAcquire Store.Extend Store.Release",
	},
	{
		"The script that takes it", "All scripts of a name run one after the other in the server, so each is one step.",
		"stores/redisstore/lua/acquire.lua", "head",
	},
	{
		"The queue in the script", "Every script that may have made the name free ends with finish.",
		"stores/redisstore/lua/queue.lua", "head waiter dispatch planLooks alert finish",
	},
	{
		"The line in the process", "If the name is held, the caller waits. In one process, only the first caller in line speaks with the store.",
		"line.go", "line turn turnState Locker.nextHead Locker.parkHead hold.nextInLine turn.passingOver",
	},
	{
		"The wait", "The head of the line waits in the store, until it is given the name or may try.",
		"wait.go", "attempt.waitForLock attempt.awaitTurn attempt.finish attempt.waitAsHead attempt.askStore attempt.takeHandOver attempt.withdraw",
	},
	{
		"The queue in the store", "On Redis a waiter has a place in a sorted set, and listens on a channel. A look tells it when to look again, if no message comes.",
		"stores/redisstore/wait.go", "Store.Wait wait.lookOnce wait.waitEnded",
	},
	{
		"Who wakes the next waiter", "A release hands the name over to the first waiter in the same script, and publishes that. The message names a fence, so that a late one is known.",
		"stores/redisstore/waiters.go", "waiter subscriber.receive waiter.grant waiter.forget subscriber.leaves",
	},
	{
		"The hold", "What the process knows of a lock that it has, and what may happen to it.",
		"hold.go", "hold hold.check hold.extend hold.noticeLoss",
	},
	{
		"Where a lease begins and ends", "The deadline of the process comes before the end of the lease in the store, whatever the network does.",
		"schedule.go", "usableFor hold.scheduleRenewal",
	},
	{
		"The renewal", "One timer serves all holds of a Locker.",
		"renew.go", "renewer renewer.recordGrant hold.recordExtension renewer.tick renewer.renew renewer.recordRenewal",
	},
	{
		"The release", "A release ends the hold in the store, or passes it on to a waiter of the same process.",
		"release.go", "hold.giveUp hold.release hold.stop hold.releaseAtStore verdict",
	},
	{
		"The hand-over inside a process", "With a store that has Pass, a release takes the name for the next waiter of the process in the same request.",
		"handover.go", "hold.passOn Locker.passedTo",
	},
	{
		"What becomes of a lost reply", "A request that may have been carried out leaves a clean-up behind.",
		"cleanup.go", "cleaner cleanUp cleaner.add cleaner.work cleaner.askAgain",
	},
	{
		"Beside the way: permits", "", "slots.go", "permitCall",
	},
	{
		"Beside the way: a token of the caller's", "", "token.go", "call.takeWithToken",
	},
	{
		"Beside the way: a change of the mode", "", "convert.go", "hold.promote hold.convert hold.awaitPromotion",
	},
}

func TestBook(t *testing.T) {
	var b bytes.Buffer
	b.WriteString(`# The book of the core

What a lock passes through on Redis, from the call to the script and back, in the order in which it is
read. The text is that of the comments in the code: a test fails if this page says something else, and
` + "`make golden`" + ` makes it anew. The [glossary](../glossary.md) has the words, and
[design.md](../design.md) shows where everything else is.
`)
	files := map[string]*houseFile{}
	for _, f := range readHouse(t) {
		files[f.path] = f
	}
	functions := 0
	for i, c := range book {
		fmt.Fprintf(&b, "\n## %d. %s\n\n%s\n", i+1, c.title, strings.TrimSpace(c.intro+"\n\nThe file is ["+c.file+"](../../"+c.file+")."))
		read := docsOf
		if path.Ext(c.file) == ".lua" {
			read = docsOfLua
		}
		docs := read(files[c.file])
		for name := range strings.FieldsSeq(c.names) {
			doc, ok := docs[name]
			if !ok {
				t.Errorf("%s has no %s with a comment: change the chapter %q of the book", c.file, name, c.title)
			}
			if doc.isFunc {
				functions++
			}
			fmt.Fprintf(&b, "\n### %s\n\n%s", name, doc.text)
		}
	}
	if functions > 60 {
		t.Errorf("the book has %d functions, and nobody reads more than 60", functions)
	}
	if *update {
		if err := os.WriteFile(bookPage, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if readText(t, bookPage) != b.String() {
		t.Errorf("%s differs from the comments of the code: make golden", bookPage)
	}
}

type bookDoc struct {
	text   string
	isFunc bool
}

// docsOf returns the comments of a file as Markdown, by name. A method has its type before it.
func docsOf(f *houseFile) map[string]bookDoc {
	docs := map[string]bookDoc{}
	if f == nil {
		return docs
	}
	printer := comment.Printer{HeadingLevel: 4, DocLinkURL: func(*comment.DocLink) string { return "" }}
	markdown := func(g *ast.CommentGroup, isFunc bool) bookDoc {
		var p comment.Parser
		text := string(printer.Markdown(p.Parse(g.Text())))
		return bookDoc{strings.ReplaceAll(text, "\n  - ", "\n- "), isFunc}
	}
	for _, d := range f.ast.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			name := d.Name.Name
			if d.Recv != nil {
				name = strings.TrimPrefix(exprText(d.Recv.List[0].Type), "*") + "." + name
			}
			if d.Doc != nil {
				docs[name] = markdown(d.Doc, true)
			}
		case *ast.GenDecl:
			for _, s := range d.Specs {
				if spec, ok := s.(*ast.TypeSpec); ok && d.Doc != nil {
					docs[spec.Name.Name] = markdown(d.Doc, false)
				}
			}
		}
	}
	return docs
}

var luaFunction = regexp.MustCompile(`^(?:local )?function (\w+)\(.*?\)(?: -- (.*))?`)

// docsOfLua returns the comments above the functions of a script, and that at its beginning, "head".
func docsOfLua(f *houseFile) map[string]bookDoc {
	docs := map[string]bookDoc{}
	if f == nil {
		return docs
	}
	var above []string
	headed := false
	for line := range strings.Lines(string(f.src)) {
		line = strings.TrimRight(line, "\n")
		if text, ok := strings.CutPrefix(line, "--"); ok {
			above = append(above, strings.TrimPrefix(text, " "))
			continue
		}
		m := luaFunction.FindStringSubmatch(line)
		if m != nil && m[2] != "" {
			above = append(above, m[2])
		}
		text := "```\n" + strings.Join(above, "\n") + "\n```\n"
		if !headed && len(above) > 0 {
			docs["head"], headed = bookDoc{text, false}, true
		}
		if m != nil && len(above) > 0 {
			docs[m[1]] = bookDoc{text, true}
		}
		above = nil
	}
	return docs
}

func exprText(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return exprText(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}
