package storeurl_test

import (
	"fmt"
	"net/url"
	"time"

	"github.com/padlock-go/padlock/storekit/storeurl"
)

type config struct {
	timeout time.Duration
	lazy    bool
}

type Option func(*config)

func Timeout(d time.Duration) Option { return func(c *config) { c.timeout = d } }
func Lazy() Option                   { return func(c *config) { c.lazy = true } }

// A store describes its URLs once.
func Example() {
	form := storeurl.Form[Option]{
		Schemes: []string{"mystore"},
		Example: "mystore://HOST:PORT",
		Hosts:   true,
		Params: map[string]storeurl.Param[Option]{
			"timeout":       storeurl.Duration(Timeout),
			"lazy":          storeurl.IfYes(Lazy()),
			"password-file": storeurl.PasswordFile[Option],
		},
	}

	u, _ := url.Parse("mystore://web@db7?timeout=3s&lazy=yes&password-file=/run/secrets/db")
	r, err := form.Read(u)
	if err != nil {
		fmt.Println(err)
		return
	}
	var c config
	for _, o := range r.Opts {
		o(&c)
	}
	servers, _ := storeurl.Addresses(u.Host, "7070")
	login, _ := r.Credentials() // a store calls it for each connection
	fmt.Println(servers, c.timeout, c.lazy, login != nil)

	u, _ = url.Parse("mystore://db7?timeout=3")
	_, err = form.Read(u)
	fmt.Println(err)
	// Output:
	// [db7:7070] 3s true true
	// invalid parameter: timeout: it is a duration such as 10s
}
