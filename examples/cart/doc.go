// Command cart keeps a visitor's cart in a session. Try it:
//
//	go run ./examples/cart
//	curl -c cookies -b cookies -d item=tea localhost:8080/cart
//	curl -c cookies -b cookies -d item=milk localhost:8080/cart
package main
