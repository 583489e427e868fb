//go:build !linux

package rig

import "errors"

func failReads(string) error { return errors.ErrUnsupported }
