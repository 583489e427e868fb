package padlockweb

import (
	"cmp"
	"net/netip"
	"regexp"
	"strings"
)

// httpClient is the client of a lock that was taken over HTTP. The store has the server of the API as
// its holder, and the client in the label.
type httpClient struct {
	Who   string // its host and process, or else its token and address
	Host  string // "" if the client has not told it
	Label string // what remains of the label
	Seen  string // its token and address, as the server saw them
}

var (
	seenClient = regexp.MustCompile(`^(.*?) ?\(([^()]+)\)$`)
	ownProcess = regexp.MustCompile(`^(?:(.*) )?([^\s/]+)/(\d+)$`)
)

// overHTTP returns the client that a label names, or nil if the label is not one of padlockapi. Any
// program can write such a label, so the pages also show the holder that the store has.
func overHTTP(label string) *httpClient {
	m := seenClient.FindStringSubmatch(label)
	if m == nil {
		return nil
	}
	if _, err := netip.ParseAddr(m[2][strings.LastIndex(m[2], " ")+1:]); err != nil {
		return nil
	}
	c := &httpClient{Label: m[1], Seen: m[2]}
	if own := ownProcess.FindStringSubmatch(m[1]); own != nil {
		c.Label, c.Host, c.Who = own[1], own[2], own[2]+":"+own[3]
	}
	c.Who = cmp.Or(c.Who, c.Seen)
	return c
}
