//go:build !linux

package doctor

// On implements files. On this system nothing is known.
func (systemFiles) On(string) (string, space) { return "", space{bytes: -1, files: -1} }
