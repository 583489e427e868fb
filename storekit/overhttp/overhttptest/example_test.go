package overhttptest_test

import (
	"fmt"
	"log"
	"net/http"

	"github.com/padlock-go/padlock/storekit/overhttp/overhttptest"
)

// The front end is busy once. Then the fake answers.
func Example() {
	service := overhttptest.Start(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {}))
	defer service.Stop()
	front := service.Front()
	front.Next("GET", 1, overhttptest.Say(http.StatusServiceUnavailable, "busy", false))

	client := http.Client{Transport: front.Transport()}
	for range 2 {
		reply, err := client.Get("http://service.example/locks/report")
		if err != nil {
			log.Fatal(err)
		}
		reply.Body.Close()
		fmt.Println(reply.StatusCode)
	}
	// Output:
	// 503
	// 200
}
