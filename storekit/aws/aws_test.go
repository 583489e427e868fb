package aws_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock/storekit/aws"
)

// The example of Amazon's documentation of S3, "GET Object", has this signature. Time in the bubble
// begins in 2000, so the test waits until the example's moment.
func TestSign(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		<-time.After(time.Until(time.Date(2013, 5, 24, 0, 0, 0, 0, time.UTC)))
		q, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://examplebucket.s3.amazonaws.com/test.txt", nil)
		if err != nil {
			t.Fatal(err)
		}
		q.Header.Set("Range", "bytes=0-9")
		aws.Sign(q, nil, aws.NewKey("AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", ""), "us-east-1", "s3")
		const want = "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request, SignedHeaders=host;range;x-amz-content-sha256;x-amz-date, Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"
		if got := q.Header.Get("Authorization"); got != want {
			t.Errorf("signed\n%s, want\n%s", got, want)
		}
	})
}

// The region comes from the environment, or from the profile.
func TestRegion(t *testing.T) {
	config := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(config, []byte("[default]\nregion = eu-west-1\n[profile other]\noutput=json\nregion=eu-west-2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ env, want string }{
		{"", "eu-west-1"},
		{"AWS_PROFILE=other", "eu-west-2"},
		{"AWS_PROFILE=missing", ""},
		{"AWS_DEFAULT_REGION=sa-east-1 AWS_PROFILE=other", "sa-east-1"},
		{"AWS_REGION=us-east-2 AWS_DEFAULT_REGION=sa-east-1", "us-east-2"},
	} {
		for _, name := range []string{"AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE"} {
			t.Setenv(name, "")
		}
		t.Setenv("AWS_CONFIG_FILE", config)
		for pair := range strings.FieldsSeq(c.env) {
			name, value, _ := strings.Cut(pair, "=")
			t.Setenv(name, value)
		}
		if got := aws.Region(); got != c.want {
			t.Errorf("%q: %q, want %q", c.env, got, c.want)
		}
	}
}
