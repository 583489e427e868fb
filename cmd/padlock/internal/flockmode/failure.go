package flockmode

import "fmt"

// failure ends the program.
type failure struct {
	status int
	text   string
	hint   bool // print a hint to --help
}

func (f *failure) Error() string { return f.text }

func fail(status int, format string, args ...any) error {
	return &failure{status: status, text: fmt.Sprintf(format, args...)}
}
