module github.com/padlock-go/padlock/stores/leasestore

go 1.25.0

require (
	github.com/padlock-go/padlock v0.0.0
	go.yaml.in/yaml/v3 v3.0.5
)

replace github.com/padlock-go/padlock => ../..
