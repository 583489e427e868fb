package s3store

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

// Config says where the locks are, and who asks for them. Only Bucket is required. Open returns
// driver.ErrInvalid for a wrong field. An empty field is filled from where the tools of AWS look:
// the environment and the files in ~/.aws.
type Config struct {
	// Bucket is the name of the bucket.
	Bucket string
	// Prefix is the beginning of the keys of all objects, such as "locks/". Only letters,
	// digits and the characters - _ . / are allowed. As in a URL, it gets a slash at its end if
	// it has none.
	Prefix string
	// Region is the region of the bucket.
	Region string
	// Endpoint is the URL of a service other than Amazon's, such as http://localhost:9000.
	Endpoint string
	// HostStyle puts the bucket into the host name. It matters only with an Endpoint, where the
	// bucket is a part of the path otherwise.
	HostStyle bool
	// Credentials returns the access key for a request. session is empty for a lasting key.
	// Credentials is called often, so it should remember its results.
	Credentials func(ctx context.Context) (id, secret, session string, err error)
	// Transport sends the requests. It must not repeat a PUT that may have arrived.
	Transport http.RoundTripper
}

// DefaultSkew is how far two front ends of the service may differ, unless register.Skew or the URL
// says another time.
const DefaultSkew = time.Second

var kind = register.Kind{
	Options: register.Options{
		Name: "s3", Clock: register.Clock{Grain: time.Second, Skew: DefaultSkew},
		Keys: &storekit.ObjectKeys, MaxKey: 1024,
		NoVersion:       `"00000000000000000000000000000000"`,
		SurvivesRestart: driver.PromiseYes, SurvivesFailover: driver.PromiseYes,
	},
	Help:    "a bucket of Amazon S3, or of a service that speaks like it",
	Example: "s3://bucket/locks",
	Login:   "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or write a profile into ~/.aws",
	Params:  []string{"region", "path-style"},
	Type:    &bucket{},
	Connect: func(t *register.Target) (register.Register, error) {
		c, err := config(t)
		if err != nil {
			return nil, err
		}
		return connect(c, &t.Options)
	},
}

// Scheme describes the URLs of S3 for package open. [FromURL] lists these URLs.
func Scheme() driver.Scheme { return kind.Scheme() }

// FromURL opens the store that a URL names:
//
//	s3://BUCKET[/PREFIX]
//
// A PREFIX without a slash at its end gets one. The access key, and what the URL does not say, come
// from where the tools of AWS find them. The URL may have these parameters:
//
//	region=NAME     Config.Region
//	endpoint=URL    Config.Endpoint
//	path-style=no   Config.HostStyle
//	skew=DURATION   register.Skew
//	lazy=yes        register.Lazy
//
// For any other parameter FromURL returns driver.ErrInvalid. opts are applied after the parameters
// of the URL. ctx bounds only the opening.
func FromURL(ctx context.Context, u *url.URL, opts ...register.Option) (*register.Store, error) {
	return kind.FromURL(ctx, u, opts...)
}

// Open opens a store. Unless the store is lazy, Open checks with three requests that the service
// refuses a write whose condition is not met.
func Open(ctx context.Context, c Config, opts ...register.Option) (*register.Store, error) {
	t := &register.Target{Options: kind.Options}
	for _, set := range opts {
		if set != nil {
			set(t)
		}
	}
	b, err := connect(c, &t.Options)
	if err != nil {
		return nil, err
	}
	return register.Open(ctx, b, t.Options, t.Lazy)
}

// config returns what a URL says.
func config(t *register.Target) (Config, error) {
	c := Config{Bucket: t.URL.Host, Prefix: t.Path, Region: t.Params["region"]}
	switch t.Params["path-style"] {
	case "no":
		c.HostStyle = true
	case "", "yes":
	default:
		return c, storekit.Invalidf("path-style: it is yes or no")
	}
	if t.Endpoint != nil {
		c.Endpoint = t.Endpoint.String()
	}
	return c, nil
}

var (
	bucketForm = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$`)
	prefixForm = regexp.MustCompile(`^([A-Za-z0-9_-][A-Za-z0-9_.-]*/)*([A-Za-z0-9_-][A-Za-z0-9_.-]*)?$`)
	numeric    = regexp.MustCompile(`^[0-9.]+$`)
)

// connect makes the register, and says in o what it promises.
func connect(c Config, o *register.Options) (*bucket, error) {
	base, err := c.complete()
	if err != nil {
		return nil, err
	}
	if c.Prefix != "" && !strings.HasSuffix(c.Prefix, "/") {
		c.Prefix += "/" // as in a URL: both must name the same objects
	}
	o.Prefix, o.Where = c.Prefix, base.String() // prefixes of a bucket fail together
	if c.Endpoint != "" {
		o.SurvivesRestart, o.SurvivesFailover = driver.PromisePartly, driver.PromisePartly
		o.Notes = []string{"Holds and fences are as durable as the service keeps an object that it has acknowledged, and a reader must see the last write at once."}
	}
	b := &bucket{Client: overhttp.New(base, c.Transport), prefix: c.Prefix}
	if c.Credentials == nil {
		c.Credentials = awsCredentials(&http.Client{Transport: b.HTTP.Transport})
	}
	b.Sign = func(q *http.Request, body []byte) error {
		id, secret, session, err := c.Credentials(q.Context())
		if err != nil {
			return fmt.Errorf("the access key: %w", err)
		}
		aws.Sign(q, body, aws.Key{ID: id, Secret: secret, Session: session}, c.Region, "s3")
		return nil
	}
	return b, nil
}

// complete checks the configuration, and takes what is missing from the environment.
func (c *Config) complete() (base *url.URL, err error) {
	switch {
	case !bucketForm.MatchString(c.Bucket) || numeric.MatchString(c.Bucket) || strings.Contains(c.Bucket, ".."):
		return nil, storekit.Invalidf("the bucket: it has 3 to 63 lower-case letters, digits, dots and hyphens")
	case !prefixForm.MatchString(c.Prefix):
		return nil, storekit.Invalidf("the prefix: it is a path such as shop/locks/, of letters, digits and the characters - _ .")
	}
	first(&c.Endpoint, os.Getenv("AWS_ENDPOINT_URL_S3"), os.Getenv("AWS_ENDPOINT_URL"))
	first(&c.Region, aws.Region())
	if c.Endpoint == "" {
		if c.Region == "" {
			return nil, storekit.Invalidf("the region of the bucket is not known; write region=eu-central-1, or set AWS_REGION")
		}
		return hosted("https", "s3."+c.Region+".amazonaws.com", c.Bucket), nil
	}
	first(&c.Region, "us-east-1") // most other services ignore it
	u, err := register.ParseEndpoint(c.Endpoint)
	if err != nil {
		return nil, err
	}
	if c.HostStyle {
		return hosted(u.Scheme, u.Host, c.Bucket), nil
	}
	return &url.URL{Scheme: u.Scheme, Host: u.Host, Path: "/" + c.Bucket + "/"}, nil
}

// hosted returns the URL of a bucket whose name is a part of the host's name. The certificates of
// services are not valid for bucket names with dots, so such a bucket stands in the path.
func hosted(scheme, host, bucket string) *url.URL {
	if scheme == "https" && strings.Contains(bucket, ".") {
		return &url.URL{Scheme: scheme, Host: host, Path: "/" + bucket + "/"}
	}
	return &url.URL{Scheme: scheme, Host: bucket + "." + host, Path: "/"}
}

// first sets an empty text to the first of the others that is not empty.
func first(text *string, others ...string) {
	for _, other := range others {
		if *text == "" {
			*text = other
		}
	}
}

// awsCredentials finds the access key as the tools of AWS do: in the environment, in the files of
// ~/.aws, or as the role of a container, a pod or a machine.
func awsCredentials(client *http.Client) func(ctx context.Context) (id, secret, session string, err error) {
	providers := []credentials.Provider{&credentials.EnvAWS{}, &credentials.FileAWSCredentials{}, &credentials.IAM{}}
	if os.Getenv("AWS_EC2_METADATA_DISABLED") == "true" && os.Getenv("AWS_WEB_IDENTITY_TOKEN_FILE")+os.Getenv("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI")+os.Getenv("AWS_CONTAINER_CREDENTIALS_FULL_URI") == "" {
		providers = providers[:2]
	}
	chain := credentials.NewChainCredentials(providers)
	return func(ctx context.Context) (string, string, string, error) {
		v, err := chain.GetWithContext(&credentials.CredContext{Client: client, Context: ctx})
		if err == nil && v.AccessKeyID == "" {
			err = errors.New("no access key was found; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, write a profile into ~/.aws, or give the machine a role")
		}
		return v.AccessKeyID, v.SecretAccessKey, v.SessionToken, err
	}
}
