package pgadvisory

import (
	"regexp"
	"strconv"
	"sync"

	"github.com/padlock-go/padlock/storekit"
	"github.com/padlock-go/padlock/storekit/advisory"
)

// These are the keys of the two rows that are about the table itself. One row has the version of
// the table, and the other has the time of the last sweep. Like the key of a name, each key is the
// hash of a text. No name has the same text.
var (
	versionKey = (&keyring{}).hashOf("version", "")
	sweepKey   = (&keyring{}).hashOf("sweep", "")
)

// Schema returns the statements that create the table of fences in a schema ("" for public). If the
// table is missing, the store runs them itself, provided that the database's user may create
// tables. Afterwards, a user needs SELECT, INSERT and UPDATE on the table. If the user also has
// DELETE, the store removes old rows.
func Schema(schema string) ([]string, error) {
	if schema == "" {
		schema = "public"
	}
	table, err := fenceTable(schema)
	if err != nil {
		return nil, err
	}
	return []string{
		"CREATE TABLE IF NOT EXISTS " + table +
			" (key bigint NOT NULL PRIMARY KEY, fence bigint NOT NULL, shared boolean NOT NULL, name bytea NOT NULL)",
		"INSERT INTO " + table + " (key, fence, shared, name) VALUES (" + strconv.FormatInt(versionKey, 10) + ", " +
			strconv.Itoa(advisory.TableVersion) + ", false, 'version of this table') ON CONFLICT (key) DO NOTHING",
	}, nil
}

var schemaName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile("^[A-Za-z0-9_]+$") })

// fenceTable returns the name of the table with its schema. Without the schema, the name would
// depend on the search path, which may differ between two users.
func fenceTable(schema string) (string, error) {
	if !schemaName().MatchString(schema) {
		return "", storekit.Invalidf("the schema %q is empty or has a character other than letters, digits and _", schema)
	}
	return `"` + schema + `".padlock_fences`, nil
}
