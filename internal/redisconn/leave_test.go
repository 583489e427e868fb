package redisconn

import "testing"

// TestWrongRole has replies of Redis 6.2 and 7.0.
func TestWrongRole(t *testing.T) {
	for reply, want := range map[string]bool{
		"READONLY You can't write against a read only replica.":                                                                           true,
		"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.":                                                true,
		"ERR Error running script (call to f_0): @user_script:9: @user_script: 9: -READONLY You can't write against a read only replica.": true,
		"ERR unknown command 'READONLY'":      false,
		"NOPERM this user has no permissions": false,
	} {
		if WrongRole(reply) != want {
			t.Errorf("%q: not %v", reply, want)
		}
	}
}
