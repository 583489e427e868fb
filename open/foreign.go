package open

import (
	"os"
	"regexp"
	"slices"
	"strings"
)

func scheme(rawURL string) string {
	s, _, _ := strings.Cut(rawURL, ":")
	return s
}

// foreign are spellings of PHP's clients that mean a store of ours.
var foreign = []struct {
	pattern *regexp.Regexp
	scheme  string // of ours; the row counts when that exists
	write   string // what to write instead; a suffix … stands for the path given
}{
	{regexp.MustCompile(`^flock://`), "file", "file://…"},
	{regexp.MustCompile(`^flock(:|$)`), "file", FileURL(os.TempDir()) + "?world=yes"},
	{regexp.MustCompile(`^in-memory$`), "memory", "memory:"},
	{regexp.MustCompile(`^semaphore$`), "semaphore", "semaphore:"},
	{regexp.MustCompile(`^redis:[^/]`), "redis", "redis://USER:PASSWORD@HOST:PORT"},
	{regexp.MustCompile(`^rediss:[^/]`), "rediss", "rediss://USER:PASSWORD@HOST:PORT"},
	{regexp.MustCompile(`^(pgsql|postgresql)\+advisory:|^postgres\+advisory:[^/]`), "postgres+advisory", "postgres+advisory://USER:PASSWORD@HOST/DATABASE"},
	{regexp.MustCompile(`^(pgsql|postgresql):|^postgres:[^/]`), "postgres", "postgres://USER:PASSWORD@HOST/DATABASE"},
	{regexp.MustCompile(`^mysql2?:[^/]|^mysql2:`), "mysql", "mysql://USER:PASSWORD@HOST/DATABASE"},
	{regexp.MustCompile(`^sqlite:[^/]|^sqlite3:`), "sqlite", "sqlite:///PATH"},
}

// foreignSpelling says what to write instead of a URL in PHP's manner. Nothing
// of it is repeated but a path of flock://, which is no secret.
func foreignSpelling(rawURL string) error {
	table := schemes()
	for _, f := range foreign {
		if !f.pattern.MatchString(rawURL) || table[f.scheme] == nil {
			continue
		}
		write := f.write
		if strings.HasSuffix(write, "…") {
			_, path, _ := strings.Cut(rawURL, "://")
			path, _, _ = strings.Cut(path, "?")
			write = FileURL(path)
			if strings.Contains(path, "@") {
				write = "file:///DIRECTORY" // that may be a password
			}
		}
		if slices.Contains(symfonySchemes, symfonyPrefix+scheme(rawURL)) {
			write += ", or symfony+ before it for the locks that PHP has there"
		}
		return invalid("this is the spelling of PHP; write %s", write)
	}
	return nil
}
