package command

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/padlock-go/padlock/open"
)

const schemaLong = `schema prints the statements that make the tables of a store in a database, for an
administrator who reviews them and runs them. It asks no server. padlock makes the
tables by itself at the first use if its user may; afterwards, SELECT, INSERT, UPDATE
and DELETE on them are enough.

  padlock schema postgres://db7/shop | psql -h db7 shop

--upgrade connects, and brings tables of an older padlock to the version of this one.
Programs with an older padlock refuse them from then on, so upgrade those first.
If the tables are newer than this padlock, nothing is changed.`

// tables is what schema prints with --json: what it has changed, or would change, in the tables.
type tables struct {
	URL        string   `json:"url"` // without secrets
	Statements []string `json:"statements,omitempty"`
	From       int      `json:"from_version,omitempty"` // missing: there were no tables
	To         int      `json:"to_version,omitempty"`
}

func (a *app) schemaCommand() *cobra.Command {
	upgrade := false
	c := &cobra.Command{
		Use:   "schema [FLAGS] [URL]",
		Short: "Print or upgrade the tables of a store in a database",
		Long:  schemaLong,
		Example: `  padlock schema postgres://db7/shop
  padlock schema --upgrade 'mysql://locks@db7/shop?password-file=/run/secrets/db7'`,
		DisableFlagsInUseLine: true,
		Args:                  a.oneURL,
		RunE:                  func(c *cobra.Command, _ []string) error { return a.schema(c.Context(), upgrade) },
	}
	c.Flags().BoolVar(&upgrade, "upgrade", false, "bring the tables in the database to the version of this padlock")
	return c
}

func (a *app) schema(ctx context.Context, upgrade bool) error {
	rawURL, err := a.url()
	if err != nil {
		return noURL("", err)
	}
	u, s, err := open.Parse(rawURL, schemes)
	if err != nil {
		return a.explain("", err)
	}
	t := tables{URL: open.Redacted(rawURL, schemes)}
	switch {
	case s.Schema == nil:
		return usage("%s has no tables", a.place())
	case upgrade:
		t.From, t.To, err = s.Upgrade(ctx, u)
	default:
		t.Statements, err = s.Schema(u)
	}
	if err != nil {
		return a.explain("", err)
	}
	return a.tellTables(t)
}

func (a *app) tellTables(t tables) error {
	if a.json {
		return a.print(a.stdout, t)
	}
	text := ""
	switch {
	case t.To == 0:
		text = strings.Join(t.Statements, ";\n\n") + ";\n"
	case t.From == 0:
		text = fmt.Sprintf("the tables were made, version %d\n", t.To)
	case t.From == t.To:
		text = fmt.Sprintf("the tables have version %d already\n", t.To)
	default:
		text = fmt.Sprintf("the tables were brought from version %d to %d\n", t.From, t.To)
	}
	_, err := fmt.Fprint(a.stdout, text)
	return err
}
