module github.com/padlock-go/padlock/open

go 1.26

require github.com/padlock-go/padlock v0.0.0

replace github.com/padlock-go/padlock => ..
