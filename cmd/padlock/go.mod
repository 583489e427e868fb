module github.com/padlock-go/padlock/cmd/padlock

go 1.26

require (
	github.com/anishathalye/porcupine v1.3.1
	github.com/padlock-go/padlock v0.0.0
	github.com/padlock-go/padlock/open/all v0.0.0
	github.com/rogpeppe/go-internal v1.16.0
	github.com/spf13/cobra v1.10.2
	github.com/spf13/pflag v1.0.10
)

require (
	github.com/inconshreveable/mousetrap v1.1.0 // indirect
	github.com/padlock-go/padlock/redisstore v0.0.0 // indirect
	github.com/redis/rueidis v1.0.79 // indirect
	golang.org/x/sys v0.47.0 // indirect
	golang.org/x/tools v0.26.0 // indirect
)

replace (
	github.com/padlock-go/padlock => ../..
	github.com/padlock-go/padlock/open/all => ../../open/all
	github.com/padlock-go/padlock/redisstore => ../../redisstore
)
