package s3store

import (
	"context"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit"
	"github.com/padlock-go/padlock/storekit/register"
)

// Config says where the locks are, and who asks for them. Only Bucket is required. An empty
// field is filled from where the tools of AWS look: the environment and the files in ~/.aws.
type Config struct {
	Bucket string
	// Prefix is the beginning of the keys of all objects, such as "locks/". Only letters, digits
	// and the characters - _ . / are allowed.
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

// Option changes what Open does.
type Option func(*config)

type config struct {
	Config
	lazy bool
	skew time.Duration
}

// DefaultSkew is how far two front ends of the service may differ, unless the option Skew says
// another time.
const DefaultSkew = time.Second

// Lazy opens the store without a request to the service, which may be down.
func Lazy() Option { return func(c *config) { c.lazy = true } }

// Skew says how far the clocks of two front ends of the service may differ. All processes that
// share locks must use the same value. The shortest lease is three times the sum of Skew and a
// second.
func Skew(d time.Duration) Option { return func(c *config) { c.skew = d } }

const maxKey = 1024 // bytes, of S3

var (
	bucketForm = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$`)
	prefixForm = regexp.MustCompile(`^([A-Za-z0-9_-][A-Za-z0-9_.-]*/)*([A-Za-z0-9_-][A-Za-z0-9_.-]*)?$`)
	numeric    = regexp.MustCompile(`^[0-9.]+$`)
)

// complete checks the configuration, and takes what is missing from the environment.
func (c *config) complete() (base *url.URL, err error) {
	switch {
	case !bucketForm.MatchString(c.Bucket) || numeric.MatchString(c.Bucket) || strings.Contains(c.Bucket, ".."):
		return nil, storekit.Invalidf("the bucket: it has 3 to 63 lower-case letters, digits, dots and hyphens")
	case !prefixForm.MatchString(c.Prefix) || len(c.Prefix) > maxKey/2:
		return nil, storekit.Invalidf("the prefix: it is a path such as shop/locks/, of letters, digits and the characters - _ . in at most %d bytes", maxKey/2)
	case c.skew < 0 || c.skew > time.Minute:
		return nil, storekit.Invalidf("skew: it is a duration from 0s to 1m")
	}
	first(&c.Endpoint, os.Getenv("AWS_ENDPOINT_URL_S3"), os.Getenv("AWS_ENDPOINT_URL"))
	first(&c.Region, os.Getenv("AWS_REGION"), os.Getenv("AWS_DEFAULT_REGION"), profileRegion())
	if c.Endpoint == "" {
		if c.Region == "" {
			return nil, storekit.Invalidf("the region of the bucket is not known; write region=eu-central-1, or set AWS_REGION")
		}
		return hosted("https", "s3."+c.Region+".amazonaws.com", c.Bucket), nil
	}
	first(&c.Region, "us-east-1") // most other services ignore it
	u, err := url.Parse(c.Endpoint)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || strings.Trim(u.Path, "/")+u.RawQuery+u.Fragment != "" {
		return nil, storekit.Invalidf("the endpoint: it is a URL such as https://s3.example.com, without a path")
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

// profileRegion reads the region of the profile from the configuration file of the AWS tools.
func profileRegion() (region string) {
	file := os.Getenv("AWS_CONFIG_FILE")
	if home, err := os.UserHomeDir(); err == nil {
		first(&file, filepath.Join(home, ".aws", "config"))
	}
	profile := os.Getenv("AWS_PROFILE")
	first(&profile, "default")
	data, _ := os.ReadFile(file) // a missing file is usual
	inside := false
	for line := range strings.Lines(string(data)) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "[") {
			section := strings.TrimSpace(strings.Trim(line, "[]"))
			inside = strings.TrimSpace(strings.TrimPrefix(section, "profile ")) == profile
		} else if name, value, ok := strings.Cut(line, "="); ok && inside && strings.TrimSpace(name) == "region" {
			region = strings.TrimSpace(value)
		}
	}
	return region
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
			err = storekit.Invalidf("no access key was found; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, write a profile into ~/.aws, or give the machine a role")
		}
		return v.AccessKeyID, v.SecretAccessKey, v.SessionToken, err
	}
}

// register returns the settings of the store over the register.
func (c *config) register() register.Options {
	o := register.Options{
		Name: "s3", Clock: register.Clock{Grain: time.Second, Skew: c.skew},
		SurvivesRestart: driver.Yes, SurvivesFailover: driver.Yes,
		MaxName: (maxKey - len(c.Prefix)) / 3,
	}
	if c.Endpoint != "" {
		o.SurvivesRestart, o.SurvivesFailover = driver.Partly, driver.Partly
		o.Notes = []string{"Holds and fences are as durable as the service keeps an object that it has acknowledged, and a reader must see the last write at once."}
	}
	return o
}
