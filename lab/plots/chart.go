package main

import (
	"bytes"
	"fmt"

	"github.com/padlock-go/padlock/lab/bench/measure"
)

// The chart has a bar for each row. On a dark page its ground is dark.
const head = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 760 248" width="760" role="img">
<title>%[1]s</title>
<style>
text { font-family: Liberation Sans, Arial, Helvetica, sans-serif; font-size: 13px; fill: #1f2328; }
.title { font-size: 18px; }
.ground { fill: #ffffff; } .axis { stroke: #57606a; } .own { fill: #1f6fb4; } .peer { fill: #a6a9ae; }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3; }
.ground { fill: #0d1117; } .axis { stroke: #8b949e; } .own { fill: #58a6ff; } .peer { fill: #6e7681; }
}
</style>
<rect class="ground" width="760" height="248"/>
<text class="title" x="380" y="32" text-anchor="middle">%[1]s</text>
`

// charted are the rows of the chart, from the top, with the names that readers know.
var charted = [][2]string{
	{"padlock", "padlock"}, {"rueidislock-1key", "rueidislock, one key"}, {"rueidislock-3key", "rueidislock, three keys"},
	{"redislock-lin10", "redislock, polls every 10 ms"}, {"redsync", "redsync"},
}

// chart returns the chart as SVG.
func chart(all run) []byte {
	const left, wide, top, high = 210, 440, 52, 30
	r, most := all.find("drain, a client each, 64 waiters"), 0.0
	for _, row := range charted {
		most = max(most, r.Median(row[0], "total_ms"))
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, head, "64 waiters on Redis take one lock in turn")
	class := "own"
	for i, row := range charted {
		ms, y := r.Median(row[0], "total_ms"), top+i*high
		fmt.Fprintf(&b, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">%s</text>\n", left-10, y+20, row[1])
		fmt.Fprintf(&b, "<rect class=\"%s\" x=\"%d\" y=\"%d\" width=\"%.1f\" height=\"18\"/>\n", class, left, y+6, wide*ms/most)
		fmt.Fprintf(&b, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"start\">%s ms</text>\n", left+wide*ms/most+7, y+20, measure.Figure(ms))
		class = "peer"
	}
	bottom := top + len(charted)*high
	fmt.Fprintf(&b, "<path class=\"axis\" d=\"M%d %dV%d\"/>\n", left, top, bottom)
	fmt.Fprintf(&b, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">milliseconds until every waiter has had the lock once</text>\n", 380, bottom+30)
	b.WriteString("</svg>\n")
	return b.Bytes()
}
