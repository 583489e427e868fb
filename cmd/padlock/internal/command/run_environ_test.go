package command

import "testing"

func TestWithoutPassword(t *testing.T) {
	t.Parallel()
	for store, want := range map[string]string{
		"file:///var/lib/locks?mode=0700":                                                    "file:///var/lib/locks?mode=0700",
		"redis://locks.example.org/3?prefix=a%2Fb:":                                          "redis://locks.example.org/3?prefix=a%2Fb:",
		"redis://:canary@locks.example.org/3?prefix=a:":                                      "redis://locks.example.org/3?prefix=a:",
		"redis+sentinel://a/name?sentinel-password=canary&prefix=p":                          "redis+sentinel://a/name?prefix=p",
		"redis+sentinel://a/name?sentinel-password=canary":                                   "redis+sentinel://a/name",
		"redis://h?password-file=/run/secrets/redis":                                         "redis://h?password-file=/run/secrets/redis",
		"rediss://canary@[::1]:7000":                                                         "rediss://[::1]:7000",
		"redis+sentinel://u:canary@a,b:2/name?db=1":                                          "redis+sentinel://a,b:2/name?db=1",
		"quorum:?store=file%3A%2F%2F%2Fa&store=redis%3Aa":                                    "quorum:?store=file%3A%2F%2F%2Fa&store=redis%3Aa",
		"all:?store=redis%3A%2F%2F%3Acanary%40a%3Fprefix=":                                   "all:?store=redis%3A%2F%2Fa%3Fprefix%3D",
		"quorum:?store=file%3A%2F%2F%2Fa&store=redis%3A%2F%2F%3Acanary%40b%2F3%3Fprefix%3Dx": "quorum:?store=file%3A%2F%2F%2Fa&store=redis%3A%2F%2Fb%2F3%3Fprefix%3Dx",
		"symfony+redis://canary@h/3":                                                         "symfony+redis:",
		"symfony+redis:?auth=canary":                                                         "symfony+redis:",
		"symfony+flock:///d?prefix=sf":                                                       "symfony+flock:///d?prefix=sf",
		"redis:canary@h":                                                                     "redis:",
		"redis://:%zz@canary":                                                                "redis:",
	} {
		if got := whole().withoutPassword(store); got != want {
			t.Errorf("%s: %s, want %s", store, got, want)
		}
	}
}
