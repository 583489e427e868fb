package sqlstore

import (
	"strconv"

	"github.com/padlock-go/padlock/driver/fast"
)

// The table of records has one row for each record.
//
//	name     the name
//	id       the ID; both are bytes, so that they sort by bytes
//	body     the text
//	written  when the record was written, in microseconds since 1970 by the server's clock
//
// The table has no part in locking. It is younger than the other tables, so it may be missing, and
// the version of the tables does not depend on it.

// recordStatements are the statements on the table of records.
type recordStatements struct {
	create, write, trim, read, newest, prune string
}

func newRecordStatements(d *dialect, t tables) recordStatements {
	id, upsert := d.binary, "ON CONFLICT (name, id) DO UPDATE SET body = excluded.body, written = excluded.written"
	if d == dialects[MySQL] {
		id, upsert = "varbinary("+strconv.Itoa(fast.MaxRecordID)+")", "ON DUPLICATE KEY UPDATE body = VALUES(body), written = VALUES(written)"
	}
	series := " WHERE name = ? AND id >= ? AND id < ?"
	return recordStatements{
		create: "CREATE TABLE IF NOT EXISTS " + t.runs + " (name " + d.binary + " NOT NULL, id " + id + " NOT NULL, " +
			"body " + d.text + " NOT NULL, written bigint NOT NULL, PRIMARY KEY (name, id))" + d.suffix,
		write: d.bind("INSERT INTO " + t.runs + " (name, id, body, written) VALUES (?, ?, ?, " + d.now + ") " + upsert),
		// In a DELETE, MySQL rejects a plain subquery on the same table, and accepts a derived
		// table.
		trim: d.bind("DELETE FROM " + t.runs + series + " AND id < (SELECT id FROM (SELECT id FROM " + t.runs + series +
			" ORDER BY id DESC LIMIT 1 OFFSET " + strconv.Itoa(fast.MaxRecords-1) + ") AS least)"),
		read: d.bind("SELECT id, body FROM " + t.runs + " WHERE name = ? ORDER BY id"),
		newest: d.bind("SELECT r.name, r.id, r.body FROM " + t.runs + " AS r JOIN (SELECT name, MAX(written) AS newest FROM " + t.runs +
			" WHERE name >= ? AND name < ? GROUP BY name ORDER BY newest DESC LIMIT ?) AS n ON n.name = r.name ORDER BY r.name, r.id"),
		prune: d.bind("DELETE FROM " + t.runs + " WHERE written < " + d.now + " - ?"),
	}
}
