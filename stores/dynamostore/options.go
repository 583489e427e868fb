package dynamostore

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit"
	"github.com/padlock-go/padlock/storekit/aws"
	"github.com/padlock-go/padlock/storekit/overhttp"
	"github.com/padlock-go/padlock/storekit/register"
)

// Config has the place of the locks and the credentials. Only Table is required. Open returns
// driver.ErrInvalid for a wrong field. An empty field is filled from where the tools of AWS look:
// the environment and the files in ~/.aws.
type Config struct {
	// Table is the name of the table.
	Table string
	// Prefix is the beginning of the keys of all items, such as "locks/". As in a URL, it gets
	// a slash at its end if it has none.
	Prefix string
	// SymfonyLayout shares the locks with the DynamoDbStore of PHP's Symfony, which must have the
	// fix symfony/symfony#65676 of 2026: before it, PHP's release deletes any holder's lock.
	// Table is then the one of Symfony, "lock_keys" unless it says otherwise, and there is no
	// Prefix. The store has no fences.
	SymfonyLayout bool
	// Region is the region of the table.
	Region string
	// Endpoint is the URL of a service other than Amazon's, such as http://localhost:8000.
	Endpoint string
	// Credentials returns the access key for a request. session is empty for a lasting key.
	// Credentials is called often, so it should remember its results.
	Credentials func(ctx context.Context) (id, secret, session string, err error)
	// Transport sends the requests. It must not repeat a request that may have arrived.
	Transport http.RoundTripper
}

// DefaultSkew is how far two front ends of the service may differ, unless register.Skew or the URL
// says another time.
const DefaultSkew = time.Second

// maxItem is the length of the longest item that DynamoDB takes.
const maxItem = 400 << 10

var kind = register.Kind{
	Options: register.Options{
		Name: "dynamodb", Clock: register.Clock{Grain: time.Second, Skew: DefaultSkew},
		Keys: &storekit.ObjectKeys, MaxKey: 2048, MaxData: maxItem - 4<<10, // the other attributes
		SurvivesRestart: driver.PromiseYes, SurvivesFailover: driver.PromiseYes,
	},
	Help:    "a table of Amazon DynamoDB, or of a service that speaks like it",
	Example: "dynamodb://padlock/shop",
	Login:   "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or write a profile into ~/.aws",
	Params:  []string{"region", "layout"},
	Type:    &table{},
	Connect: func(t *register.Target) (register.Register, error) {
		c, err := config(t)
		if err != nil {
			return nil, err
		}
		return open(c, &t.Options)
	},
}

// config returns what a URL says.
func config(t *register.Target) (c Config, err error) {
	c = Config{Table: t.URL.Host, Prefix: t.Path, Region: t.Params["region"]}
	if t.Endpoint != nil {
		c.Endpoint = t.Endpoint.String()
	}
	switch layout, given := t.Params["layout"]; {
	case layout == "symfony":
		c.SymfonyLayout = true
	case given:
		err = storekit.Invalidf("layout: it is symfony, or left out")
	}
	return c, err
}

var tableForm = regexp.MustCompile(`^[A-Za-z0-9_.-]{3,255}$`)

// open makes the register, and says in o what it promises.
func open(c Config, o *register.Options) (register.Register, error) {
	t, err := connect(c, o)
	if err != nil || !c.SymfonyLayout {
		return t, err
	}
	return t.shared(o)
}

// connect makes the register of padlock's own layout.
func connect(c Config, o *register.Options) (*table, error) {
	if !tableForm.MatchString(c.Table) {
		return nil, storekit.Invalidf("the table: its name has 3 to 255 letters, digits and the characters _ . -")
	}
	base, err := c.complete()
	if err != nil {
		return nil, err
	}
	if c.Prefix = strings.Trim(c.Prefix, "/"); c.Prefix != "" {
		c.Prefix += "/" // as in a URL: both must name the same items
	}
	o.Prefix, o.Where = c.Prefix, base.String()+c.Table+" in "+c.Region
	if c.Endpoint != "" {
		o.SurvivesRestart, o.SurvivesFailover = driver.PromisePartly, driver.PromisePartly
		o.Notes = []string{"Holds and fences are as durable as the service keeps an item that it has acknowledged, and a consistent read must see the last write."}
	}
	t := &table{Client: overhttp.New(base, c.Transport), name: c.Table}
	t.Judge = judge
	if c.Credentials == nil {
		var refused func()
		c.Credentials, refused = awsCredentials(&http.Client{Transport: t.HTTP.Transport})
		t.Judge = func(r *overhttp.Reply) {
			if aws.IsOldKey(r.Status, r.Body) {
				refused()
			}
			judge(r)
		}
	}
	t.Sign = func(q *http.Request, body []byte) error {
		id, secret, session, err := c.Credentials(q.Context())
		if err != nil {
			return fmt.Errorf("the access key: %w", err)
		}
		aws.Sign(q, body, aws.NewKey(id, secret, session), c.Region, "dynamodb")
		return nil
	}
	return t, nil
}

// complete takes what is missing from the environment, and returns the URL of the service.
func (c *Config) complete() (base *url.URL, err error) {
	for _, name := range []string{"AWS_ENDPOINT_URL_DYNAMODB", "AWS_ENDPOINT_URL"} {
		if c.Endpoint == "" {
			c.Endpoint = os.Getenv(name)
		}
	}
	if c.Region == "" {
		c.Region = aws.Region()
	}
	if c.Endpoint == "" {
		if c.Region == "" {
			return nil, storekit.Invalidf("the region of the table is not known; write region=eu-central-1, or set AWS_REGION")
		}
		return &url.URL{Scheme: "https", Host: "dynamodb." + c.Region + ".amazonaws.com", Path: "/"}, nil
	}
	if c.Region == "" {
		c.Region = "us-east-1" // most other services ignore it
	}
	u, err := register.ParseEndpoint(c.Endpoint)
	if err != nil {
		return nil, err
	}
	return u.JoinPath("/"), nil
}

// awsCredentials finds the access key as the tools of AWS do: in the environment, in the files of
// ~/.aws, or as the role of a container, a pod or a machine.
//
// The function refused is called after a reply that refuses the key.
func awsCredentials(client *http.Client) (get func(ctx context.Context) (id, secret, session string, err error), refused func()) {
	providers := []credentials.Provider{&credentials.EnvAWS{}, &credentials.FileAWSCredentials{}, &credentials.IAM{}}
	if os.Getenv("AWS_EC2_METADATA_DISABLED") == "true" && os.Getenv("AWS_WEB_IDENTITY_TOKEN_FILE")+os.Getenv("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI")+os.Getenv("AWS_CONTAINER_CREDENTIALS_FULL_URI") == "" {
		providers = providers[:2]
	}
	chain := credentials.NewChainCredentials(providers)
	get, again := aws.KeepUntilRefused(func(ctx context.Context) (aws.Key, time.Time, error) {
		v, err := chain.GetWithContext(&credentials.CredContext{Client: client, Context: ctx})
		if err == nil && v.AccessKeyID == "" {
			err = errors.New("no access key was found; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, write a profile into ~/.aws, or give the machine a role")
		}
		return aws.NewKey(v.AccessKeyID, v.SecretAccessKey, v.SessionToken), v.Expiration, err
	})
	return get, func() {
		chain.Expire() // it keeps a key of the files for ever, even if they have another one by now
		again()
	}
}
