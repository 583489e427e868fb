package s3store

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/minio/minio-go/v7/pkg/signer"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit"
)

// A client sends requests about one bucket.
type client struct {
	config
	base *url.URL // of the bucket, with a slash at the end
	http *http.Client
}

func newClient(c config) (*client, error) {
	base, err := c.complete()
	if err != nil {
		return nil, err
	}
	if c.Transport == nil {
		t := http.DefaultTransport.(*http.Transport).Clone()
		t.DisableCompression = true // a compressed reply may have another ETag
		t.MaxIdleConnsPerHost = 64
		c.Transport = t
	}
	// A redirection means that the bucket is in another region. It would need another signature.
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	cl := &client{config: c, base: base, http: &http.Client{Transport: c.Transport, CheckRedirect: stay}}
	if cl.Credentials == nil {
		cl.Credentials = awsCredentials(&http.Client{Transport: c.Transport})
	}
	return cl, nil
}

// A reply is what the service has answered.
type reply struct {
	status int
	header http.Header
	body   []byte
	code   string // of an error, such as NoSuchKey
	text   string
}

// refused returns the error for a reply that is none of the expected ones: nothing was changed.
func (r *reply) refused() error {
	if region := r.header.Get("X-Amz-Bucket-Region"); r.status == 301 || r.status == 307 || r.code == "AuthorizationHeaderMalformed" && region != "" {
		return fmt.Errorf("%w: the bucket is in the region %s: write region=%[2]s", driver.ErrUnavailable, region)
	}
	return fmt.Errorf("%w: the service answers %d %s: %s", driver.ErrUnavailable, r.status, r.code, r.text)
}

// unsure reports whether the reply leaves open what the service has done: it has failed, or has too
// much to do.
func (r *reply) unsure() bool {
	return r.status >= 500 && r.status != http.StatusNotImplemented || r.status == http.StatusTooManyRequests || r.status == http.StatusRequestTimeout
}

const maxReply = 8 << 20

// send sends a request once. The key is empty for a request about the bucket. An error of send is a
// storekit.NoReply.
func (c *client) send(ctx context.Context, method, key string, query url.Values, header [2]string, body []byte) (*reply, error) {
	id, secret, session, err := c.Credentials(ctx)
	if err != nil {
		return nil, &storekit.NoReply{Err: fmt.Errorf("the access key: %w", err), Unsent: true}
	}
	u := *c.base
	u.Path, u.RawQuery = u.Path+key, query.Encode()
	q, err := http.NewRequestWithContext(ctx, method, u.String(), bytes.NewReader(body))
	if err != nil {
		return nil, &storekit.NoReply{Err: err, Unsent: true}
	}
	sum := sha256.Sum256(body)
	q.Header.Set("X-Amz-Content-Sha256", hex.EncodeToString(sum[:]))
	if header[0] != "" {
		q.Header.Set(header[0], header[1])
	}
	r, err := c.http.Do(signer.SignV4(*q, id, secret, session, c.Region))
	if err != nil {
		var dial *net.OpError
		return nil, &storekit.NoReply{Err: err, Unsent: errors.As(err, &dial) && dial.Op == "dial"}
	}
	defer r.Body.Close()
	data, err := io.ReadAll(io.LimitReader(r.Body, maxReply))
	if err != nil {
		return nil, &storekit.NoReply{Err: err}
	}
	out := &reply{status: r.StatusCode, header: r.Header, body: data}
	if r.StatusCode >= 300 {
		var e struct{ Code, Message string }
		_ = xml.Unmarshal(data, &e) // a reply need not have a code
		out.code, out.text = e.Code, e.Message
	}
	return out, nil
}

// read sends a GET, and repeats it if the service has too much to do. The result is the last reply,
// and an error is driver.ErrUnavailable.
func (c *client) read(ctx context.Context, key string, query url.Values) (*reply, error) {
	for n := 0; ; n++ {
		r, err := c.send(ctx, http.MethodGet, key, query, [2]string{}, nil)
		if err == nil && !r.unsure() {
			return r, nil
		}
		if err == nil {
			err = r.refused()
		}
		if n == 4 || ctx.Err() != nil || !storekit.Sleep(ctx, 20*time.Millisecond<<n+rand.N(50*time.Millisecond<<n)) {
			return nil, fmt.Errorf("%w: %w", driver.ErrUnavailable, err)
		}
	}
}
