module github.com/padlock-go/padlock/web

go 1.25.0

require (
	github.com/alexedwards/scs/v2 v2.9.0
	github.com/gorilla/sessions v1.4.0
	github.com/padlock-go/padlock v0.0.0
	github.com/padlock-go/padlock/stores/redisstore v0.0.0
	github.com/redis/rueidis v1.0.79
)

require (
	github.com/gorilla/securecookie v1.1.2 // indirect
	golang.org/x/sys v0.47.0 // indirect
)

replace github.com/padlock-go/padlock => ..

replace github.com/padlock-go/padlock/stores/redisstore => ../stores/redisstore
