package dynamostore

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/padlock-go/padlock/driver"
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

// createTable is the request that makes the table.
func createTable(name, key string) any {
	type pair map[string]string
	return map[string]any{
		"TableName": name, "BillingMode": "PAY_PER_REQUEST",
		"AttributeDefinitions": []pair{{"AttributeName": key, "AttributeType": "S"}},
		"KeySchema":            []pair{{"AttributeName": key, "KeyType": "HASH"}},
	}
}

// makeTable makes the table if there is none, and waits until it can be used.
func makeTable(ctx context.Context, u *url.URL) error {
	target, err := kind.Read(u)
	if err != nil {
		return err
	}
	c, err := config(target)
	if err != nil {
		return err
	}
	t, err := connect(c, &target.Options)
	if err != nil {
		return err
	}
	if c.SymfonyLayout {
		t.key = keyID
	}
	defer t.Close()
	return t.create(ctx)
}

func (t *table) create(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	made := false
	for {
		a, _, err := t.read(ctx, "DescribeTable", map[string]string{"TableName": t.name})
		switch {
		case err == nil && a.Table.TableStatus == "ACTIVE":
			return t.expire(ctx, made)
		case err != nil && a.typeOf() != "ResourceNotFoundException":
			return err
		case err != nil && !made: // later, the table is only not known yet
			made = true
			if err := t.ask(ctx, "CreateTable", createTable(t.name, t.key), "ResourceInUseException"); err != nil {
				return err
			}
		}
		if !storekit.Sleep(ctx, time.Second) {
			return fmt.Errorf("%w: the table %s is not ready yet: repeat the command in a minute", driver.ErrUnavailable, t.name)
		}
	}
}

// expire lets the service delete items that nobody has changed for long, unless it does so already.
// If the service does not tell, expire asks only for a table that was made by this call. A service
// other than Amazon's need not know that.
func (t *table) expire(ctx context.Context, made bool) error {
	if t.key != "key" { // the items of Symfony's table have no time at which they expire
		return nil
	}
	q, err := request("DescribeTimeToLive", map[string]string{"TableName": t.name})
	if err != nil {
		return err
	}
	r, err := t.Read(ctx, q)
	if told := err == nil && r.Status == http.StatusOK; told && ttlEnabled(r.Body) || !told && !made {
		return nil
	}
	err = t.ask(ctx, "UpdateTimeToLive", map[string]any{
		"TableName": t.name, "TimeToLiveSpecification": map[string]any{"Enabled": true, "AttributeName": "expires"},
	}, "UnknownOperationException")
	if err != nil {
		return fmt.Errorf("the table %s is made, but its items are kept for ever: %w", t.name, err)
	}
	return nil
}

// ask sends an operation that changes the table. An error of the type fine is none: somebody else
// makes the table, or the service does not know the operation.
func (t *table) ask(ctx context.Context, name string, op any, fine string) error {
	q, err := request(name, op)
	if err != nil {
		return err
	}
	r, err := t.Do(ctx, q)
	if err != nil {
		return err
	}
	if a := answerOf(r); r.Status == http.StatusBadRequest && a.typeOf() == fine {
		return nil
	}
	return t.failure(r)
}

// Status reports the settings of the table; see driver.Reporter.
func (t *table) Status(ctx context.Context) ([]driver.Finding, error) {
	f := driver.Finding{Name: "expiry", Value: driver.Unknown}
	q, err := request("DescribeTimeToLive", map[string]string{"TableName": t.name})
	if err != nil {
		return nil, err
	}
	r, err := t.Read(ctx, q)
	if err != nil || r.Status != http.StatusOK {
		return []driver.Finding{f}, nil // the right to ask is not required
	}
	f.Value = "items are deleted some days after their last change"
	if !ttlEnabled(r.Body) {
		f.Value = "the records of free names are kept for ever"
	}
	return []driver.Finding{f}, nil
}

// ttlEnabled reports whether the table deletes items by the attribute expires.
func ttlEnabled(body []byte) bool {
	var a struct {
		TimeToLiveDescription struct{ AttributeName, TimeToLiveStatus string }
	}
	if json.Unmarshal(body, &a) != nil {
		return false
	}
	d := a.TimeToLiveDescription
	return d.AttributeName == "expires" && (d.TimeToLiveStatus == "ENABLED" || d.TimeToLiveStatus == "ENABLING")
}
