module github.com/padlock-go/padlock/lab

go 1.26.0

require (
	github.com/johannesboyne/gofakes3 v1.2.0
	github.com/klauspost/cpuid/v2 v2.4.0 // indirect
	github.com/minio/md5-simd v1.1.2 // indirect
	github.com/minio/minio-go/v7 v7.4.1 // indirect
	github.com/ryszard/goskiplist v0.0.0-20150312221310-2dfbae5fcf46 // indirect
	go.shabbyrobe.org/gocovmerge v0.0.0-20230507111327-fa4f82cfbf4d // indirect
	golang.org/x/tools v0.52.0 // indirect
	gopkg.in/ini.v1 v1.67.3 // indirect
)

require (
	filippo.io/edwards25519 v1.2.0 // indirect
	github.com/anishathalye/porcupine v1.3.1
	github.com/bsm/redislock v0.9.4
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/coreos/go-semver v0.3.1 // indirect
	github.com/coreos/go-systemd/v22 v22.7.0 // indirect
	github.com/dustin/go-humanize v1.1.0 // indirect
	github.com/go-redsync/redsync/v4 v4.18.1
	github.com/go-sql-driver/mysql v1.10.1 // indirect
	github.com/go-zookeeper/zk v1.0.4
	github.com/gofrs/flock v0.13.1
	github.com/golang/protobuf v1.5.4 // indirect
	github.com/google/uuid v1.6.0 // indirect
	github.com/grpc-ecosystem/grpc-gateway/v2 v2.29.0 // indirect
	github.com/jackc/pgpassfile v1.0.0 // indirect
	github.com/jackc/pgservicefile v0.0.0-20240606120523-5a60cdf6a761 // indirect
	github.com/jackc/pgx/v5 v5.12.0
	github.com/jackc/puddle/v2 v2.2.3 // indirect
	github.com/klauspost/compress v1.20.0 // indirect
	github.com/mattn/go-isatty v0.0.24 // indirect
	github.com/ncruces/go-strftime v1.1.0 // indirect
	github.com/padlock-go/padlock v0.0.0
	github.com/padlock-go/padlock/open/all v0.0.0
	github.com/padlock-go/padlock/stores/dynamostore v0.0.0
	github.com/padlock-go/padlock/stores/etcdstore v0.0.0
	github.com/padlock-go/padlock/stores/leasestore v0.0.0
	github.com/padlock-go/padlock/stores/mongostore v0.0.0 // indirect
	github.com/padlock-go/padlock/stores/pgadvisory v0.0.0
	github.com/padlock-go/padlock/stores/redisstore v0.0.0
	github.com/padlock-go/padlock/stores/s3store v0.0.0
	github.com/padlock-go/padlock/stores/sqlstore/drivers v0.0.0
	github.com/padlock-go/padlock/stores/zkstore v0.0.0
	github.com/redis/go-redis/v9 v9.23.0
	github.com/redis/rueidis v1.0.79
	github.com/remyoudompheng/bigfft v0.0.0-20230129092748-24d4a6f8daec // indirect
	github.com/xdg-go/pbkdf2 v1.0.0 // indirect
	github.com/xdg-go/scram v1.2.0 // indirect
	github.com/xdg-go/stringprep v1.0.4 // indirect
	github.com/youmark/pkcs8 v0.0.0-20240726163527-a2c0da244d78 // indirect
	go.etcd.io/etcd/api/v3 v3.7.3 // indirect
	go.etcd.io/etcd/client/pkg/v3 v3.7.3 // indirect
	go.etcd.io/etcd/client/v3 v3.7.3
	go.mongodb.org/mongo-driver/v2 v2.9.3 // indirect
	go.uber.org/atomic v1.12.0 // indirect
	go.uber.org/multierr v1.11.0 // indirect
	go.uber.org/zap v1.27.1
	go.yaml.in/yaml/v3 v3.0.5 // indirect
	golang.org/x/crypto v0.58.0 // indirect
	golang.org/x/net v0.61.0 // indirect
	golang.org/x/sync v0.24.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
	golang.org/x/text v0.43.0 // indirect
	google.golang.org/genproto/googleapis/api v0.0.0-20260803160001-6ac0973c030d // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20260803160001-6ac0973c030d // indirect
	google.golang.org/grpc v1.83.2 // indirect
	google.golang.org/protobuf v1.36.12 // indirect
	modernc.org/libc v1.79.0 // indirect
	modernc.org/mathutil v1.7.1 // indirect
	modernc.org/memory v1.12.1 // indirect
	modernc.org/sqlite v1.61.1
)

replace github.com/padlock-go/padlock => ..

replace github.com/padlock-go/padlock/stores/dynamostore => ../stores/dynamostore

replace github.com/padlock-go/padlock/stores/leasestore => ../stores/leasestore

replace github.com/padlock-go/padlock/stores/etcdstore => ../stores/etcdstore

replace github.com/padlock-go/padlock/stores/mongostore => ../stores/mongostore

replace github.com/padlock-go/padlock/open/all => ../open/all

replace github.com/padlock-go/padlock/stores/pgadvisory => ../stores/pgadvisory

replace github.com/padlock-go/padlock/stores/redisstore => ../stores/redisstore

replace github.com/padlock-go/padlock/stores/zkstore => ../stores/zkstore

replace github.com/redis/rueidis/rueidiscompat v1.0.79 => github.com/redis/rueidis/rueidiscompat v1.0.78

replace github.com/google/pprof v0.0.0-20261016150608-1facf8f91b50 => github.com/google/pprof v0.0.0-20260115054156-294ebfa9ad83

replace github.com/padlock-go/padlock/web => ../web

replace github.com/padlock-go/padlock/stores/sqlstore/drivers => ../stores/sqlstore/drivers

replace github.com/padlock-go/padlock/stores/s3store => ../stores/s3store
