package overhttp_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit/overhttp"
)

// A request that has not reached the service is ErrUnavailable. One that may have been carried out
// is ErrUncertain.
func Example() {
	ctx := context.Background()
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "hello") }))
	base, err := url.Parse(service.URL + "/")
	if err != nil {
		log.Fatal(err)
	}
	client := overhttp.New(base, nil)
	defer client.Close()

	reply, err := client.Do(ctx, overhttp.Request{Path: "locks/report"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(reply.Status, string(reply.Body))
	service.Close()
	_, err = client.Do(ctx, overhttp.Request{Path: "locks/report"})
	fmt.Println("not sent:", errors.Is(err, driver.ErrUnavailable))
	// Output:
	// 200 hello
	// not sent: true
}
