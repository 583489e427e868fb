package fast

import (
	"errors"
	"strings"
	"testing"

	"github.com/padlock-go/padlock/driver"
)

func TestCheckRecords(t *testing.T) {
	for _, r := range []Record{
		{"r", "x"}, {"r00-9z", `{"v":1}`}, {strings.Repeat("a", MaxRecordID), strings.Repeat("x", MaxRecord)}, {"s1", "é\u007f"},
	} {
		if err := CheckRecords([]Record{r}); err != nil {
			t.Errorf("%.50q is refused: %v", r, err)
		}
	}
	for _, r := range []Record{
		{}, {"", "x"}, {"r", ""}, {"1", "x"}, {"-", "x"}, {"R", "x"}, {"r_", "x"}, {"r/../x", "x"}, {"r.", "x"}, {"r\x00", "x"},
		{strings.Repeat("a", MaxRecordID+1), "x"}, {"r", strings.Repeat("x", MaxRecord+1)}, {"r", "a\nb"}, {"r", "\x00"}, {"r", "\xff"},
	} {
		if err := CheckRecords([]Record{{"r", "good"}, r}); !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("%.50q gives %v", r, err)
		}
	}
	for _, n := range []int{0, MaxRecords + 1} {
		if err := CheckRecords(make([]Record, n)); !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("%d records give %v", n, err)
		}
	}
}
