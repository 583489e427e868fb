package sqlstore_test

import (
	"errors"
	"net/url"
	"strings"
	"testing"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/drivertest"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/stores/sqlstore"
)

// TestSessionSettings runs the whole suite in sessions whose settings change what statements mean.
// Providers, roles and DSNs set them.
func TestSessionSettings(t *testing.T) {
	server.Thorough(t)
	t.Parallel()
	pg := server.Postgres(t, server.PostgresOptions{})
	my := server.MariaDB(t)
	postgres := func(settings ...string) database {
		options := "-c " + strings.Join(settings, " -c ")
		return database{"pgx", pg.URL() + "&options=" + strings.ReplaceAll(url.QueryEscape(options), "+", "%20"), sqlstore.PostgreSQL}
	}
	mysql := func(params string) database { return database{"mysql", my.URL() + "?" + params, sqlstore.MySQL} }
	for name, d := range map[string]database{
		"postgres text": postgres("standard_conforming_strings=off", "bytea_output=escape", "DateStyle=SQL,DMY",
			"IntervalStyle=iso_8601", "transform_null_equals=on", "extra_float_digits=-10", "TimeZone=Asia/Kolkata"),
		"postgres planner": postgres("enable_indexscan=off", "enable_bitmapscan=off", "plan_cache_mode=force_generic_plan",
			"default_transaction_deferrable=on"),
		"mysql": mysql("sql_safe_updates=1&sql_auto_is_null=1&time_zone=" + url.QueryEscape("'+05:30'") + "&sql_mode=" +
			url.QueryEscape("'ANSI,NO_BACKSLASH_ESCAPES,PAD_CHAR_TO_FULL_LENGTH,NO_UNSIGNED_SUBTRACTION,TRADITIONAL'")),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			drivertest.Run(t, drivertest.Harness{Open: d.open, Slow: true, Parallel: 4})
		})
	}
}

// TestSettingsThatHideRows: a pool whose sessions would read less than there is, or write something
// else, is refused when the store opens.
func TestSettingsThatHideRows(t *testing.T) {
	t.Parallel()
	d := databases["mariadb"](t)
	dsn := d.dsn
	for setting, want := range map[string]string{
		"sql_select_limit=1000":           "would seem free",
		"sql_mode='EMPTY_STRING_IS_NULL'": "leave EMPTY_STRING_IS_NULL out",
	} {
		name, value, _ := strings.Cut(setting, "=")
		d.dsn = dsn + "?" + name + "=" + url.QueryEscape(value)
		s, err := d.open(t.Context())
		if err == nil {
			s.Close()
		}
		if !errors.Is(err, driver.ErrUnavailable) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", setting, err)
		}
	}
}
