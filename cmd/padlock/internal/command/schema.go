package command

import (
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

The table in DynamoDB is the exception: somebody has to make it. For it, schema prints
commands of Amazon's tool.

  padlock schema dynamodb://padlock/shop | sh`

// tables is what schema prints with --json.
type tables struct {
	URL        string   `json:"url"` // without secrets
	Statements []string `json:"statements,omitempty"`
}

func (a *app) schemaCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "schema [FLAGS] [URL]",
		Short: "Print the statements that make the tables of a store in a database",
		Long:  schemaLong,
		Example: `  padlock schema postgres://db7/shop
  padlock schema dynamodb://padlock/shop | sh`,
		DisableFlagsInUseLine: true,
		Args:                  a.oneURL,
		RunE:                  func(*cobra.Command, []string) error { return a.schema() },
	}
}

func (a *app) schema() error {
	rawURL, err := a.url()
	if err != nil {
		return noURL("", err)
	}
	u, s, err := open.Parse(rawURL, a.schemes)
	if err != nil {
		return a.explain("", err)
	}
	if s.Schema == nil {
		return usage("%s has no tables", a.place())
	}
	t := tables{URL: open.Redacted(rawURL, a.schemes)}
	if t.Statements, err = s.Schema(u); err != nil {
		return a.explain("", err)
	}
	if a.json {
		return a.print(a.stdout, t)
	}
	_, err = fmt.Fprint(a.stdout, strings.Join(t.Statements, ";\n\n")+";\n")
	return err
}
