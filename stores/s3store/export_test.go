package s3store

import "net/http"

// Through sends the requests through t.
func Through(t http.RoundTripper) Option { return func(c *config) { c.Transport = t } }
