module github.com/padlock-go/padlock/stores/s3store

go 1.26.0

require (
	github.com/minio/minio-go/v7 v7.4.1
	github.com/padlock-go/padlock v0.0.0
)

require (
	github.com/klauspost/cpuid/v2 v2.4.0 // indirect
	github.com/minio/md5-simd v1.1.2 // indirect
	golang.org/x/net v0.60.0 // indirect
	golang.org/x/sys v0.48.0 // indirect
	golang.org/x/text v0.42.0 // indirect
	gopkg.in/ini.v1 v1.67.3 // indirect
)

replace github.com/padlock-go/padlock => ../..
