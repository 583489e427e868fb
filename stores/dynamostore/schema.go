package dynamostore

import (
	"net/url"

	"github.com/padlock-go/padlock/storekit"
)

// schema returns the commands that make the table with the tool of AWS.
func schema(u *url.URL) ([]string, error) {
	t, err := kind.Read(u)
	if err != nil {
		return nil, err
	}
	c, err := config(t)
	if err != nil {
		return nil, err
	}
	if !tableForm.MatchString(c.Table) {
		return nil, storekit.Invalidf("the table: its name has 3 to 255 letters, digits and the characters _ . -")
	}
	more := ""
	if c.Region != "" {
		more += " --region " + c.Region
	}
	if c.Endpoint != "" {
		more += " --endpoint-url " + c.Endpoint
	}
	key := "AttributeName=key"
	if c.SymfonyLayout {
		key = "AttributeName=" + keyID
	}
	statements := []string{
		"aws dynamodb create-table --table-name " + c.Table + " --billing-mode PAY_PER_REQUEST" +
			" --attribute-definitions " + key + ",AttributeType=S --key-schema " + key + ",KeyType=HASH" + more,
		"aws dynamodb wait table-exists --table-name " + c.Table + more,
	}
	if c.SymfonyLayout { // its items have no time at which they expire
		return statements, nil
	}
	return append(statements,
		"aws dynamodb update-time-to-live --table-name "+c.Table+" --time-to-live-specification Enabled=true,AttributeName=expires"+more), nil
}
