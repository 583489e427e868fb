module github.com/padlock-go/padlock/session/gorillastore

go 1.25.0

require (
	github.com/gorilla/sessions v1.4.0
	github.com/padlock-go/padlock v0.0.0
)

require github.com/gorilla/securecookie v1.1.2 // indirect

replace github.com/padlock-go/padlock => ../..
