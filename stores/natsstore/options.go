package natsstore

import (
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit"
	"github.com/padlock-go/padlock/storekit/register"
	"github.com/padlock-go/padlock/storekit/storeurl"
)

// Config has the place of the locks. Servers and Bucket are required. Open returns
// driver.ErrInvalid for a wrong field.
type Config struct {
	// Servers are servers of one cluster, as HOST or HOST:PORT. The usual port is 4222. The
	// client learns the other servers of the cluster from them.
	Servers []string
	// Bucket is the name of the bucket, which the command padlock schema makes.
	Bucket string
	// Prefix is the beginning of all keys, such as "locks/". Only letters, digits and the
	// characters - _ / are allowed. As in a URL, it gets a slash at its end if it has none.
	Prefix string
	// ServerClock judges leases by the clocks of the servers instead of by observation. These may
	// differ by a second, or by register.Skew. All programs that share locks must have the same
	// values.
	ServerClock bool
	// Options are options of NATS's client, such as nats.UserInfo, nats.UserCredentials and
	// nats.Secure. How it connects again, and what it does with errors, is set by this package.
	Options []nats.Option
}

// serverSkew is how far the clocks of two servers may differ, unless register.Skew says another
// time.
const serverSkew = time.Second

// shortestAge is the shortest expiry of a bucket that does no harm. A lease or a cool-down lasts
// for a day at most. Later, the clock has passed the fence.
const shortestAge = 8 * 24 * time.Hour

// maxMessage is the length of the longest message with its headers, maxData that of the longest
// record. NATS takes messages of 1 MB by default.
const (
	maxMessage = 256 << 10
	maxData    = maxMessage - 4<<10
)

// keys makes keys of names. A dot parts a key, so it is escaped. The percent sign of an escaped
// byte becomes an equals sign; see kvKey.
var keys = storekit.Escaping{Plain: "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_/"}

var options = register.Options{
	Name: "nats", Clock: register.Clock{Observed: true, Skew: serverSkew},
	Keys: &keys, MaxKey: 3 << 10, MaxData: maxData,
	SurvivesRestart: driver.PromisePartly, SurvivesFailover: driver.PromisePartly,
	Notes: []string{
		"A server writes to disk every two minutes, unless its sync_interval says otherwise: if a machine dies, or most machines of a cluster at once, younger holds and fences are lost.",
		"A bucket whose size is limited extends no lease while it is full.",
	},
}

const (
	example     = "nats://localhost:4222/locks/shop"
	defaultPort = "4222"
)

var form = storeurl.Form[register.Option]{
	Schemes: []string{"nats"}, Example: example, Hosts: true,
	Params: map[string]storeurl.Param[register.Option]{
		"ca": storeurl.Keep[register.Option], "cert": storeurl.Keep[register.Option], "key": storeurl.Keep[register.Option],
		"server-name":   storeurl.Keep[register.Option],
		"tls":           storeurl.Yes[register.Option],
		"creds":         storeurl.Keep[register.Option],
		"password-file": storeurl.PasswordFile[register.Option],
		"clock":         storeurl.Keep[register.Option],
		"replicas":      storeurl.Keep[register.Option],
		"skew":          storeurl.Duration(register.Skew),
		"lazy":          storeurl.IfYes(register.Lazy()),
	},
}

var (
	bucketForm = regexp.MustCompile(`^[A-Za-z0-9_-]{1,200}$`)
	prefixForm = regexp.MustCompile(`^[A-Za-z0-9_/-]*$`)
)

var errBucket = storekit.Invalidf("the bucket: its name has 1 to 200 letters, digits and the characters _ -; a URL has the form %s", example)

// connect makes the register, and says in the target what it promises. It sends nothing.
func connect(c Config, opts []register.Option) (*register.Target, *bucket, error) {
	c.Prefix = strings.Trim(c.Prefix, "/")
	switch {
	case !bucketForm.MatchString(c.Bucket):
		return nil, nil, errBucket
	case !prefixForm.MatchString(c.Prefix):
		return nil, nil, storekit.Invalidf("the prefix: it has letters, digits and the characters - _ /")
	}
	if c.Prefix != "" {
		c.Prefix += "/" // as in a URL: both must name the same keys
	}
	servers, err := storeurl.Addresses(strings.Join(c.Servers, ","), defaultPort)
	if err != nil {
		return nil, nil, err
	}
	slices.Sort(servers)
	all := "nats://" + strings.Join(servers, ",nats://")
	t := &register.Target{Options: options}
	t.Options.Prefix, t.Options.Where = c.Prefix, strings.ToLower(all)
	b := &bucket{connection: newConnection(all, c.Bucket, c.Options), clock: "observed"}
	if c.ServerClock {
		b.clock, t.Options.Clock.Observed = "server", false
	}
	for _, set := range opts {
		if set != nil {
			set(t)
		}
	}
	return t, b, nil
}
