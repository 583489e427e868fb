package redisstore

import (
	"errors"
	"strings"
	"testing"

	"github.com/padlock-go/padlock/driver"
)

// TestErrorsOfScripts has the texts with which Redis 6.2 and 7.0 report a command that failed in a
// script. The client has removed a leading "ERR".
func TestErrorsOfScripts(t *testing.T) {
	const before = "Error running script (call to f_8f55ae4a3be429c6d38c5d5db3e80edf89197b64): @user_script:41: "
	for text, want := range map[string]error{
		before + "@user_script: 41: -OOM command not allowed when used memory > 'maxmemory'.   ":                          driver.ErrUnavailable,
		before + "@user_script: 41: -READONLY You can't write against a read only replica.   ":                            driver.ErrUnavailable,
		before + "WRONGTYPE Operation against a key holding the wrong kind of value":                                      driver.ErrInvalid,
		"@user_script: 41: -MISCONF Redis is configured to save RDB snapshots, but it is currently unable to persist":     driver.ErrUnavailable,
		before + "@user_script: 41: -NOPERM this user has no permissions to run the 'zadd' command":                       driver.ErrUncertain,
		before + "@user_script: 41: Unknown Redis command called from Lua script":                                         driver.ErrUncertain,
		"OOM command not allowed when used memory > 'maxmemory'. script: 8f55ae4a3be429c6d38c5d5, on @user_script:41.":    driver.ErrUnavailable,
		"NOPERM User u has no permissions to run the 'zadd' command script: 8f55ae4a3be429c6d38c5d5, on @user_script:41.": driver.ErrUncertain,
		"The user executing the script can't run this command or subcommand script: 274f, on @user_script:42.":            driver.ErrUncertain,
	} {
		if err := refusal(text); !errors.Is(err, want) {
			t.Errorf("%s\nis %v, want %v", text, err, want)
		} else if denied := strings.Contains(text, "NOPERM") || strings.Contains(text, "can't run"); denied != strings.Contains(err.Error(), "ACL LOG") {
			t.Errorf("%s\nis %v, which does not say that a right is missing", text, err)
		}
	}
}
