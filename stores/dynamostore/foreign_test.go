package dynamostore_test

import (
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/server/fakes"
	"github.com/padlock-go/padlock/storekit/overhttp/overhttptest"
)

// An item of the application, with the key of a lock, is not replaced, and every verb refuses the
// name.
func TestItemOfTheApplication(t *testing.T) {
	inMemory(t, func(t *testing.T, f *fakes.DynamoDB, s *overhttptest.Service) {
		store, err := openOn(t.Context(), s.Front())
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		for _, theirs := range []map[string]text{
			{"key": {"S": "locks/n"}, "total": {"N": "7"}},
			{"key": {"S": "locks/n"}, "version": {"N": "7"}},
			{"key": {"S": "locks/n"}, "version": {"S": "7"}, "record": {"S": "theirs"}},
		} {
			f.Items["locks/n"] = maps.Clone(theirs)
			r := driver.Request{Name: "n", Token: driver.TokenOf("a"), TTL: time.Minute}
			_, acquired := store.Acquire(t.Context(), r)
			_, broken := store.Break(t.Context(), "n", 0)
			_, seen := store.Inspect(t.Context(), "n")
			_, extended := store.Extend(t.Context(), "n", "a", time.Minute)
			for verb, err := range map[string]error{"Acquire": acquired, "Break": broken, "Inspect": seen, "Extend": extended} {
				if !errors.Is(err, driver.ErrUnavailable) || !strings.Contains(err.Error(), `"n" is no record of padlock`) {
					t.Errorf("%v: %s: %v", theirs, verb, err)
				}
			}
			if out, err := store.Release(t.Context(), "n", "a", 0); out != driver.OutcomeGone || err == nil {
				t.Errorf("%v: Release: %v, %v", theirs, out, err)
			}
			if list, err := store.List(t.Context(), ""); len(list) != 0 || err != nil {
				t.Errorf("%v: listed: %+v, %v", theirs, list, err)
			}
			if !maps.EqualFunc(f.Items["locks/n"], theirs, func(a, b text) bool { return maps.Equal(a, b) }) {
				t.Errorf("%v became %v", theirs, f.Items["locks/n"])
			}
		}
	})
}
