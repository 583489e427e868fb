package main

import (
	"fmt"
	"html"
	"regexp"
	"strings"
)

// The page and the picture of the questions that choose a store. The picture is made of the page's
// tables, so both say the same.
const (
	choicePage    = docs + "/which-store.md"
	choicePicture = images + "/which-store.svg"
)

var (
	question = regexp.MustCompile(`(?m)^### (.*)\n`)
	answer   = regexp.MustCompile(`(?m)^\| (.*) \| (.*) \| \[.*\]\(([^#)]*).*\) \|\n`)
)

// drawChoice returns the picture: for each question a row of boxes, and in each box an answer, what to
// take, and the page about it.
func drawChoice(page string) string {
	const width, left, across, down = 880, 130, 246, 74
	_, page, _ = strings.Cut(page, "\n## Three questions\n")
	page, _, _ = strings.Cut(page, "\n## ")
	var body strings.Builder
	y, starts := 14, question.FindAllStringSubmatchIndex(page, -1)
	for i, at := range starts {
		title, end := page[at[2]:at[3]], len(page)
		if i+1 < len(starts) {
			end = starts[i+1][0]
		}
		answers := answer.FindAllStringSubmatch(page[at[1]:end], -1)
		high := (len(answers)+2)/3*down - 10
		fmt.Fprintf(&body, `<rect class="question" x="10" y="%d" width="%d" height="%d" rx="6"/>`+"\n", y, left-20, high)
		words := strings.Fields(title)
		for n := 0; n < len(words); n += 2 {
			fmt.Fprintf(&body, `<text class="ask" x="%d" y="%d" text-anchor="middle">%s</text>`+"\n",
				left/2, y+high/2-(len(words)-1)/2*9+n*9+5, strings.Join(words[n:min(n+2, len(words))], " "))
		}
		if i+1 < len(starts) {
			fmt.Fprintf(&body, `<path class="line" d="M%d %dv14m-5 -6l5 6l5 -6"/>`+"\n", left/2, y+high)
		}
		for n, a := range answers {
			x, top := left+n%3*across, y+n/3*down
			fmt.Fprintf(&body, `<rect class="answer" x="%d" y="%d" width="%d" height="%d" rx="6"/>`, x, top, across-8, down-10)
			for line, text := range a[1:] {
				class := []string{"when", "take", "page"}[line]
				fmt.Fprintf(&body, `<text class="%s" x="%d" y="%d">%s</text>`, class, x+10, top+19+line*19, html.EscapeString(strings.ReplaceAll(text, "`", "")))
			}
			body.WriteByte('\n')
		}
		y += high + 14
	}
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="Liberation Sans,Arial,Helvetica,sans-serif" font-size="13" text-anchor="start" role="img" aria-label="Three questions choose a store and its settings. The tables of the page say the same.">
<!-- make plots writes this file from docs/which-store.md -->
<title>Which store?</title>
<style>
.ground { fill: #fff; } .question { fill: #1a6fb5; } .ask { fill: #fff; font-weight: bold; } .answer { fill: #f2f6fa; stroke: #c5d3e0; }
.line { fill: none; stroke: #57606a; stroke-width: 1.5; } .when { fill: #1f2328; } .take { fill: #0b5394; font-weight: bold; } .page { fill: #57606a; font-size: 11px; }
@media (prefers-color-scheme: dark) {
.ground { fill: #0d1117; } .question { fill: #1f5a8a; } .answer { fill: #161b22; stroke: #30363d; }
.line { stroke: #adb5bd; } .when { fill: #e6edf3; } .take { fill: #8cc0e8; } .page { fill: #9aa4b2; }
}
</style>
<rect class="ground" width="%d" height="%d"/>
%s</svg>
`, width, y, width, y, body.String())
}
