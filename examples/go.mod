module github.com/padlock-go/padlock/examples

go 1.26.0

require (
	github.com/padlock-go/padlock v0.0.0
	github.com/padlock-go/padlock/stores/redisstore v0.0.0
	github.com/padlock-go/padlock/stores/sqlstore/drivers v0.0.0
)

require (
	github.com/jackc/pgpassfile v1.0.0 // indirect
	github.com/jackc/pgservicefile v0.0.0-20240606120523-5a60cdf6a761 // indirect
	github.com/jackc/pgx/v5 v5.12.0 // indirect
	github.com/jackc/puddle/v2 v2.2.3 // indirect
	github.com/redis/rueidis v1.0.79 // indirect
	golang.org/x/sync v0.24.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
	golang.org/x/text v0.41.0 // indirect
)

replace (
	github.com/padlock-go/padlock => ..
	github.com/padlock-go/padlock/stores/redisstore => ../stores/redisstore
	github.com/padlock-go/padlock/stores/sqlstore/drivers => ../stores/sqlstore/drivers
)

// Tests of the SQLite in Go, which `go mod tidy` reads too, import this at a version that not every
// module proxy has. Nothing of it is compiled here.
replace github.com/google/pprof v0.0.0-20261016150608-1facf8f91b50 => github.com/google/pprof v0.0.0-20260115054156-294ebfa9ad83
