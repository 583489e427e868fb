//go:build !linux

package rig

import (
	"errors"

	"github.com/padlock-go/padlock/lab/soak"
)

func failReads(string) error { return errors.ErrUnsupported }

func slowExecs([]string) []soak.Fault { return nil }
