module github.com/padlock-go/padlock

go 1.25
