module github.com/padlock-go/padlock/cmd/padlock

go 1.26

require github.com/padlock-go/padlock/open v0.0.0

require github.com/padlock-go/padlock v0.0.0 // indirect

replace (
	github.com/padlock-go/padlock => ../..
	github.com/padlock-go/padlock/open => ../../open
)
