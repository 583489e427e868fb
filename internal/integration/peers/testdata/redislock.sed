# Makes redislock's own tests of v0.9.4 tests of compat/redislock.
s|github.com/bsm/redislock|github.com/padlock-go/padlock/compat/redislock|
s|"127.0.0.1:6379"|os.Getenv("REDIS_SERVERS")|
s|^	"math/rand"|&\n	"os"|
