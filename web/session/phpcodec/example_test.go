package phpcodec_test

import (
	"fmt"
	"log"

	"github.com/padlock-go/padlock/web/session/phpcodec"
)

// A session of PHP is read, one value is changed, and the others keep their bytes.
func Example() {
	doc, err := phpcodec.Parse(phpcodec.PHP, []byte(`user|s:3:"ann";cart|a:1:{i:0;s:5:"apple";}`))
	if err != nil {
		log.Fatal(err)
	}
	raw, _ := doc.Get("cart")
	var cart []string
	if err := phpcodec.Unmarshal(raw, &cart); err != nil {
		log.Fatal(err)
	}
	raw, err = phpcodec.Marshal(append(cart, "pear"))
	if err != nil {
		log.Fatal(err)
	}
	if err := doc.Set("cart", raw); err != nil {
		log.Fatal(err)
	}
	session, err := doc.Encode()
	fmt.Println(string(session), err)
	// Output: user|s:3:"ann";cart|a:2:{i:0;s:5:"apple";i:1;s:4:"pear";} <nil>
}
