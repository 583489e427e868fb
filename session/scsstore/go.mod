module github.com/padlock-go/padlock/session/scsstore

go 1.25.0

require (
	github.com/alexedwards/scs/v2 v2.9.0
	github.com/padlock-go/padlock v0.0.0
)

replace github.com/padlock-go/padlock => ../..
