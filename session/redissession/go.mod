module github.com/padlock-go/padlock/session/redissession

go 1.25.0

require (
	github.com/padlock-go/padlock v0.0.0
	github.com/padlock-go/padlock/stores/redisstore v0.0.0
	github.com/redis/rueidis v1.0.79
)

require golang.org/x/sys v0.47.0 // indirect

replace github.com/padlock-go/padlock => ../..

replace github.com/padlock-go/padlock/stores/redisstore => ../../stores/redisstore
