package aws_test

import (
	"fmt"
	"log"
	"net/http"
	"strings"

	"github.com/padlock-go/padlock/storekit/aws"
)

func ExampleSign() {
	q, err := http.NewRequest("GET", "https://dynamodb.eu-central-1.amazonaws.com/", nil)
	if err != nil {
		log.Fatal(err)
	}
	aws.Sign(q, nil, aws.NewKey("AKIDEXAMPLE", "secret", ""), "eu-central-1", "dynamodb")
	signature := q.Header.Get("Authorization")
	fmt.Println(strings.HasPrefix(signature, "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/"))
	// Output: true
}
