package mysqladvisory

import (
	"regexp"
	"strconv"
	"sync"

	"github.com/padlock-go/padlock/storekit"
	"github.com/padlock-go/padlock/storekit/advisory"
)

// These rows of the table are about the table itself. No lock has such a name, since the names of
// locks are hexadecimal.
const (
	versionRow = "padlock version"
	sweepRow   = "padlock sweep"
)

// Schema returns the statements that create the table of fences in a database. "" means the
// database of the connection. The store runs the statements itself if the table is missing and its
// user may create tables. Afterwards, the user needs SELECT, INSERT and UPDATE on the table. If the
// user also has DELETE, the store removes old rows.
func Schema(database string) ([]string, error) {
	table, err := fenceTable(database)
	if err != nil {
		return nil, err
	}
	return (&statements{table}).makeTable(), nil
}

func (s *statements) makeTable() []string {
	return []string{
		"CREATE TABLE IF NOT EXISTS " + s.table +
			" (lock_name varbinary(64) NOT NULL PRIMARY KEY, fence bigint NOT NULL, name varbinary(1024) NOT NULL," +
			" session varbinary(64) NOT NULL, since bigint NOT NULL, holder blob NOT NULL) ENGINE=InnoDB",
		"INSERT INTO " + s.table + " (lock_name, fence, name, session, since, holder) VALUES ('" + versionRow + "', " +
			strconv.Itoa(advisory.TableVersion) + ", 'version of this table', '-', 0, '') ON DUPLICATE KEY UPDATE fence = fence",
	}
}

var databaseName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile("^[A-Za-z0-9_$-]+$") })

// fenceTable returns the name of the table with its database.
func fenceTable(database string) (string, error) {
	if database == "" {
		return "`padlock_fences`", nil
	}
	if !databaseName().MatchString(database) {
		return "", storekit.Invalidf("the name of the database %q has a character other than letters, digits, _, - and $", database)
	}
	return "`" + database + "`.`padlock_fences`", nil
}
