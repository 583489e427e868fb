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

// A Service is a kind of object storage.
type Service int

// The services.
const (
	ServiceS3     Service = iota // Amazon S3, or a service that speaks like it
	ServiceGoogle                // Google Cloud Storage
)

// Config has the place of the locks and the credentials. Only Bucket is required. Open returns
// driver.ErrInvalid for a wrong field. An empty field is filled from where the tools of the service
// look: for Amazon, the environment and the files in ~/.aws.
type Config struct {
	// Bucket is the name of the bucket.
	Bucket string
	// Service is where the bucket is. Region and HostStyle are used for ServiceS3 only.
	Service Service
	// Prefix is the beginning of the keys of all objects, such as "locks/". Only letters,
	// digits and the characters - _ . / are allowed. As in a URL, it gets a slash at its end if
	// it has none.
	Prefix string
	// Region is the region of the bucket.
	Region string
	// Endpoint is the URL of another service than the usual one, such as http://localhost:9000.
	Endpoint string
	// HostStyle puts the bucket into the host name. It matters only with an Endpoint, where the
	// bucket is a part of the path otherwise.
	HostStyle bool
	// Credentials returns the access key for a request. session is empty for a lasting key.
	// Credentials is called often, so it should remember its results. With ServiceGoogle, the key
	// is an HMAC key.
	Credentials func(ctx context.Context) (id, secret, session string, err error)
	// Token returns an access token of Google for a request. It matters only without Credentials. Token is called often, so it should remember its results.
	Token func(ctx context.Context) (string, error)
	// Transport sends the requests. It must not repeat a PUT that may have arrived.
	Transport http.RoundTripper
}

// googleEndpoint is where Google Cloud Storage is.
const googleEndpoint = "https://storage.googleapis.com"

// DefaultSkew is how far two front ends of the service may differ, unless register.Skew or the URL
// says another time.
const DefaultSkew = time.Second

var (
	bucketForm = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$`)
	googleForm = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]$`)
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
	if c.Endpoint != "" && c.Endpoint != googleEndpoint {
		o.SurvivesRestart, o.SurvivesFailover = driver.PromisePartly, driver.PromisePartly
		o.Notes = []string{"Holds and fences are as durable as the service keeps an object that it has acknowledged, and a reader must see the last write at once."}
	}
	b := &bucket{Client: overhttp.New(base, c.Transport), prefix: c.Prefix, service: c.Service}
	client := &http.Client{Transport: b.HTTP.Transport}
	switch {
	case c.Service == ServiceGoogle && c.Credentials == nil:
		signGoogle(b.Client, c.Token, client)
	case c.Credentials == nil:
		var refused func()
		c.Credentials, refused = awsCredentials(client)
		b.Judge = func(r *overhttp.Reply) {
			if aws.IsOldKey(r.Status, r.Body) {
				refused()
			}
		}
		fallthrough
	default:
		b.Sign = c.sign
	}
	return b, nil
}

// sign signs a request with an access key.
func (c *Config) sign(q *http.Request, body []byte) error {
	id, secret, session, err := c.Credentials(q.Context())
	if err != nil {
		return fmt.Errorf("the access key: %w", err)
	}
	key := aws.NewKey(id, secret, session)
	if key.Google = c.Service == ServiceGoogle; key.Google {
		aws.Sign(q, body, key, "auto", "storage")
	} else {
		aws.Sign(q, body, key, c.Region, "s3")
	}
	return nil
}

// complete checks the configuration, and takes what is missing from the environment.
func (c *Config) complete() (base *url.URL, err error) {
	switch {
	case c.Service < ServiceS3 || c.Service > ServiceGoogle:
		return nil, storekit.Invalidf("the service %d is not known", c.Service)
	case c.Service == ServiceGoogle && (!googleForm.MatchString(c.Bucket) || strings.Contains(c.Bucket, "..")):
		return nil, storekit.Invalidf("the bucket: it has at least 3 lower-case letters, digits, dots, hyphens and underscores")
	case c.Service == ServiceS3 && (!bucketForm.MatchString(c.Bucket) || numeric.MatchString(c.Bucket) || strings.Contains(c.Bucket, "..")):
		return nil, storekit.Invalidf("the bucket: it has 3 to 63 lower-case letters, digits, dots and hyphens")
	case !prefixForm.MatchString(c.Prefix):
		return nil, storekit.Invalidf("the prefix: it is a path such as shop/locks/, of letters, digits and the characters - _ .")
	}
	if c.Service == ServiceGoogle {
		first(&c.Endpoint, googleEndpoint)
		return c.inPath()
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
	if !c.HostStyle {
		return c.inPath()
	}
	u, err := register.ParseEndpoint(c.Endpoint)
	if err != nil {
		return nil, err
	}
	return hosted(u.Scheme, u.Host, c.Bucket), nil
}

// inPath returns the URL of a bucket that is a part of the path at the Endpoint.
func (c *Config) inPath() (*url.URL, error) {
	u, err := register.ParseEndpoint(c.Endpoint)
	if err != nil {
		return nil, err
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
