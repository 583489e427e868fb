//go:build !unix

package soak

import "os"

// stop and proceed are nil on systems that cannot stop a process.
var stop, proceed os.Signal
