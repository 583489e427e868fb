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

--make is for DynamoDB, whose table padlock does not make by itself: it makes the table,
and waits until it can be used.`

// tables is what schema prints with --json.
type tables struct {
	URL        string   `json:"url"` // without secrets
	Statements []string `json:"statements,omitempty"`
	Made       bool     `json:"made,omitempty"` // by --make: the table is there
}

func (a *app) schemaCommand() *cobra.Command {
	makes := false
	c := &cobra.Command{
		Use:   "schema [FLAGS] [URL]",
		Short: "Print or make the tables of a store in a database",
		Long:  schemaLong,
		Example: `  padlock schema postgres://db7/shop
  padlock schema --make dynamodb://padlock/shop`,
		DisableFlagsInUseLine: true,
		Args:                  a.oneURL,
		RunE:                  func(c *cobra.Command, _ []string) error { return a.schema(c.Context(), makes) },
	}
	c.Flags().BoolVar(&makes, "make", false, "make the table in DynamoDB")
	return c
}

func (a *app) schema(ctx context.Context, makes bool) error {
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
	case makes && s.MakeTable == nil:
		return usage("padlock makes the tables of %s by itself at the first use; leave out --make to print them", a.place())
	case makes:
		t.Made = true
		err = s.MakeTable(ctx, u)
	default:
		t.Statements, err = s.Schema(u)
	}
	if err != nil {
		return a.explain("", err)
	}
	if a.json {
		return a.print(a.stdout, t)
	}
	text := "the table is there\n"
	if !t.Made {
		text = strings.Join(t.Statements, ";\n\n") + ";\n"
	}
	_, err = fmt.Fprint(a.stdout, text)
	return err
}
