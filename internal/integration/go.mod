module github.com/padlock-go/padlock/internal/integration

go 1.26.0

require (
	github.com/bsm/redislock v0.9.4
	github.com/go-redsync/redsync/v4 v4.18.1
	github.com/gofrs/flock v0.13.1
	github.com/padlock-go/padlock v0.0.0
	github.com/padlock-go/padlock/open v0.0.0
	github.com/padlock-go/padlock/redisstore v0.0.0
	github.com/redis/go-redis/v9 v9.23.0
	github.com/redis/rueidis v1.0.79
)

require (
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	go.uber.org/atomic v1.12.0 // indirect
	golang.org/x/sys v0.48.0 // indirect
)

replace (
	github.com/padlock-go/padlock => ../..
	github.com/padlock-go/padlock/open => ../../open
	github.com/padlock-go/padlock/redisstore => ../../redisstore
)

// redsync's own tests, which `go mod tidy` reads too, import this at a version
// that not every module proxy has. Nothing of it is compiled here.
replace github.com/redis/rueidis/rueidiscompat v1.0.79 => github.com/redis/rueidis/rueidiscompat v1.0.78
