package dbms

import (
	"strconv"
	"strings"
)

// Clock has the SQL for the server's clock in microseconds since 1970, by the name of the engine.
var Clock = map[string]string{
	PostgreSQL: "(date_part('epoch', clock_timestamp()) * 1000000)::bigint",
	// UTC, so that the result depends neither on the time zone of the session nor on the hour that
	// is repeated at the end of summer time.
	MySQL:  "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))",
	SQLite: "CAST(ROUND((julianday('now') - 2440587.5) * 86400000) AS INTEGER) * 1000",
}

// Number replaces each question mark with a placeholder of PostgreSQL: $1, $2 and so on.
func Number(query string) string {
	var b strings.Builder
	n := 0
	for part := range strings.SplitAfterSeq(query, "?") {
		text, found := strings.CutSuffix(part, "?")
		b.WriteString(text)
		if found {
			n++
			b.WriteString("$" + strconv.Itoa(n))
		}
	}
	return b.String()
}
