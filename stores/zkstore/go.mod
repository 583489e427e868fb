module github.com/padlock-go/padlock/stores/zkstore

go 1.25.0

require (
	github.com/go-zookeeper/zk v1.0.4
	github.com/padlock-go/padlock v0.0.0
)

replace github.com/padlock-go/padlock => ../..
