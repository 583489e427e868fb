package dynamostore_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/internal/server/fakes"
	"github.com/padlock-go/padlock/storekit/overhttp/overhttptest"
	"github.com/padlock-go/padlock/storekit/register"
)

func request(name string) driver.Request {
	return driver.Request{Name: name, Token: driver.TokenOf(rand.Text()), TTL: 30 * time.Second}
}

// open opens a store on a front end of its own.
func open(t *testing.T, s *overhttptest.Service, opts ...register.Option) (*register.Store, *overhttptest.Front) {
	t.Helper()
	f := s.Front()
	store, err := openOn(t.Context(), f, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	return store, f
}

// answers gives the next requests of a front end an answer.
func answers(f *overhttptest.Front, answer overhttptest.Answer) func(reads, writes int) {
	return func(reads, writes int) {
		f.Next("GetItem", reads, answer)
		f.Next("Scan", reads, answer)
		f.Next("PutItem", writes, answer)
	}
}

func TestDisturbances(t *testing.T) {
	throttled := overhttptest.Say(400, failure("ThrottlingException"), false)
	all := map[string]overhttptest.Answer{
		"throttled":   throttled,
		"provisioned": overhttptest.Say(400, failure("ProvisionedThroughputExceededException"), false),
		"conflict":    overhttptest.Say(400, failure("TransactionConflictException"), false),
	}
	for _, effect := range []bool{true, false} {
		all[fmt.Sprint("lost, effect=", effect)] = overhttptest.Lose(effect)
		all[fmt.Sprint("500, effect=", effect)] = overhttptest.Say(500, failure("InternalServerError"), effect)
		all[fmt.Sprint("503, effect=", effect)] = overhttptest.Say(503, "no JSON", effect)
	}
	for name, answer := range all {
		t.Run(name, func(t *testing.T) {
			inMemory(t, func(t *testing.T, _ *fakes.DynamoDB, s *overhttptest.Service) {
				store, f := open(t, s)
				overhttptest.CheckDisturbances(t, store, func(reads, writes int) {
					f.Next("GetItem", reads, throttled)
					f.Next("PutItem", writes, answer)
				})
			})
		})
	}
}

func TestRefusals(t *testing.T) {
	for _, kind := range []string{"AccessDeniedException", "ValidationException", "ResourceNotFoundException", "UnrecognizedClientException"} {
		inMemory(t, func(t *testing.T, _ *fakes.DynamoDB, s *overhttptest.Service) {
			store, f := open(t, s)
			overhttptest.CheckRefusal(t, store, func() int { return s.Counts()["PutItem"] }, answers(f, overhttptest.Say(400, failure(kind), false)))
		})
	}
}

// A process that is too late learns the holder from the refusal of its write, without a read.
func TestHolderInTheRefusal(t *testing.T) {
	inMemory(t, func(t *testing.T, _ *fakes.DynamoDB, s *overhttptest.Service) {
		store, f := open(t, s)
		rival, _ := open(t, s)
		s.Counts()
		f.Next("PutItem", 1, func(w http.ResponseWriter, carryOut func() *httptest.ResponseRecorder) {
			r := request("job")
			r.Holder = driver.Holder{Host: "rival"}
			if _, err := rival.Acquire(context.Background(), r); err != nil {
				t.Error(err)
			}
			w.Header().Set("Date", time.Now().UTC().Format(http.TimeFormat))
			out := carryOut()
			w.WriteHeader(out.Code)
			w.Write(out.Body.Bytes())
		})
		var held *driver.HeldError
		if _, err := store.Acquire(t.Context(), request("job")); !errors.As(err, &held) || len(held.Holds) != 1 || held.Holds[0].Host != "rival" {
			t.Errorf("Acquire: %v", err)
		}
		if n := s.Counts()["GetItem"]; n != 2 {
			t.Errorf("%d reads by two processes", n)
		}
	})
}

func TestLateEffect(t *testing.T) {
	inMemory(t, func(t *testing.T, _ *fakes.DynamoDB, s *overhttptest.Service) {
		store, f := open(t, s)
		other, _ := open(t, s)
		if code := overhttptest.CheckLateEffect(t, store, other, f, "PutItem"); code != http.StatusBadRequest {
			t.Errorf("the late write is answered %d", code)
		}
	})
}

// A list has several pages, and leaves out the items of others.
func TestList(t *testing.T) {
	inMemory(t, func(t *testing.T, f *fakes.DynamoDB, s *overhttptest.Service) {
		store, _ := open(t, s)
		for i := range 7 {
			if _, err := store.Acquire(t.Context(), request(fmt.Sprint("n", i))); err != nil {
				t.Fatal(err)
			}
		}
		f.Page = 2
		f.Items["other/n9"] = map[string]text{"key": {"S": "other/n9"}}
		for prefix, want := range map[string]int{"": 7, "n": 7, "n3": 1, "o": 0} {
			if states, err := store.List(t.Context(), prefix); err != nil || len(states) != want {
				t.Errorf("List(%q): %v, %v", prefix, states, err)
			}
		}
	})
}

func TestPortal(t *testing.T) {
	for _, body := range []string{"<html>Please log in</html>", `{"status":"maintenance"}`, "null", ""} {
		inMemory(t, func(t *testing.T, _ *fakes.DynamoDB, s *overhttptest.Service) {
			store, f := open(t, s)
			other, _ := open(t, s)
			if err := overhttptest.CheckPortal(t, store, other, answers(f, overhttptest.Say(200, body, false))); !errors.Is(err, driver.ErrUncertain) || errors.Is(err, driver.ErrUnavailable) {
				t.Errorf("%q: PutItem: %v", body, err)
			}
		})
	}
}

// A reply to a Scan without items, as a proxy may send, is no empty list.
func TestScanWithoutItems(t *testing.T) {
	inMemory(t, func(t *testing.T, _ *fakes.DynamoDB, s *overhttptest.Service) {
		store, f := open(t, s)
		f.Next("Scan", 1, overhttptest.Say(200, "{}", false))
		if states, err := store.List(t.Context(), ""); !errors.Is(err, driver.ErrUnavailable) {
			t.Errorf("List: %v, %v", states, err)
		}
	})
}

// The store refuses a reader whose label would make the item longer than the service takes.
func TestManyReaders(t *testing.T) {
	server.Thorough(t)
	inMemory(t, func(t *testing.T, _ *fakes.DynamoDB, s *overhttptest.Service) {
		store, _ := open(t, s)
		overhttptest.CheckReaders(t, store, 45)
	})
	withPHP(t, func(t *testing.T, _ *fakes.DynamoDB, s *overhttptest.Service) {
		store, err := openWithPHP(t.Context(), s.Front())
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		overhttptest.CheckReaders(t, store, 45)
	})
}
