package pgadvisory_test

import (
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/stores/pgadvisory"
)

// The comments of the options say these ranges. Open checks them before it connects.
func TestRangesOfOptions(t *testing.T) {
	config, err := pgx.ParseConfig("postgres://127.0.0.1:1/shop?sslmode=disable")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name  string
		valid bool
		opts  []pgadvisory.Option
	}{
		{"LossDelay(999ms)", false, []pgadvisory.Option{pgadvisory.LossDelay(999 * time.Millisecond)}},
		{"LossDelay(1s)", true, []pgadvisory.Option{pgadvisory.LossDelay(time.Second)}},
		{"LossDelay(1h)", true, []pgadvisory.Option{pgadvisory.LossDelay(time.Hour)}},
		{"LossDelay(61m)", false, []pgadvisory.Option{pgadvisory.LossDelay(61 * time.Minute)}},
		{"MaxHolds(0)", false, []pgadvisory.Option{pgadvisory.MaxHolds(0)}},
		{"MaxHolds(1)", true, []pgadvisory.Option{pgadvisory.MaxHolds(1)}},
		{"Keep(1s)", true, []pgadvisory.Option{pgadvisory.Keep(time.Second)}},
		{"Keep(-1s)", true, []pgadvisory.Option{pgadvisory.Keep(-time.Second)}},
		{"no schema", false, []pgadvisory.Option{pgadvisory.InSchema("")}},
		{"a schema", true, []pgadvisory.Option{pgadvisory.InSchema("Locks_2")}},
		{"a schema with a hyphen", false, []pgadvisory.Option{pgadvisory.InSchema("locks-2")}},
		{"any namespace", true, []pgadvisory.Option{pgadvisory.Namespace("a\x00 é")}},
		{"a namespace of Symfony", false, []pgadvisory.Option{pgadvisory.Namespace("a"), pgadvisory.SymfonyLayout()}},
		{"a namespace of numbers", false, []pgadvisory.Option{pgadvisory.Namespace("a"), pgadvisory.NumberLayout()}},
	} {
		s, err := pgadvisory.Open(t.Context(), config, append(c.opts, pgadvisory.Lazy())...)
		if (err == nil) != c.valid || err != nil && !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("%s: %v", c.name, err)
		}
		if err == nil {
			s.Close()
		}
	}
}
