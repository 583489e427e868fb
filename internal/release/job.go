package main

import "time"

const (
	home    = "https://github.com/padlock-go/padlock"
	ownPath = "github.com/padlock-go/padlock"
)

// job holds the flags. A verb uses those that it needs.
type job struct {
	out, name, version, goroot string
	seconds                    int64
	args                       []string
}

func (j *job) time() time.Time { return time.Unix(j.seconds, 0).UTC() }
