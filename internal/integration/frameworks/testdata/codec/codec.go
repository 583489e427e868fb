// Package codec stands in for the msgpack of gin, which no test uses and which takes half a minute
// to compile. A program leaves it out with the build tag nomsgpack.
package codec

import (
	"errors"
	"io"
)

// MsgpackHandle does nothing.
type MsgpackHandle struct{}

// Coder does nothing.
type Coder struct{}

// NewDecoder returns a Coder.
func NewDecoder(io.Reader, *MsgpackHandle) Coder { return Coder{} }

// NewEncoder returns a Coder.
func NewEncoder(io.Writer, *MsgpackHandle) Coder { return Coder{} }

// Decode fails.
func (Coder) Decode(any) error { return errors.ErrUnsupported }

// Encode fails.
func (Coder) Encode(any) error { return errors.ErrUnsupported }
