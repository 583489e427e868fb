//go:build !unix

package soak

import "os"

// stop and proceed are nil where processes cannot be made to stand still.
var stop, proceed os.Signal
