module github.com/padlock-go/padlock/examples

go 1.26.0

require (
	github.com/padlock-go/padlock v0.0.0
	github.com/padlock-go/padlock/stores/redisstore v0.0.0
	github.com/padlock-go/padlock/web v0.0.0
)

require (
	github.com/redis/rueidis v1.0.79 // indirect
	golang.org/x/sys v0.49.0 // indirect
)

replace (
	github.com/padlock-go/padlock => ..
	github.com/padlock-go/padlock/stores/redisstore => ../stores/redisstore
	github.com/padlock-go/padlock/web => ../web
)
