package dynamostore_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/server/fakes"
	"github.com/padlock-go/padlock/storekit/overhttp/overhttptest"
	"github.com/padlock-go/padlock/storekit/register"
)

// A PHP without the fix #65676 deletes the lock of the next holder. Padlock's holder learns of it
// as a loss, at its next renewal. Readers, cool-downs and spent tokens are gone, too.
func TestPHPBeforeItsFix(t *testing.T) {
	both(t, func(t *testing.T, store *register.Store, p *php) {
		p.unfixed = true
		if _, err := store.Acquire(t.Context(), request("mine")); err != nil {
			t.Fatal(err)
		}
		for _, shared := range []bool{false, true} {
			if !p.save("job", time.Second) {
				t.Fatal("PHP does not get a free name")
			}
			<-time.After(4 * time.Second)
			r := request("job")
			r.Shared = shared
			if _, err := store.Acquire(t.Context(), r); err != nil {
				t.Fatalf("after the end of PHP's lease: %v", err)
			}
			if all, err := store.List(t.Context(), ""); err != nil || len(all) != 2 {
				t.Errorf("List of the holders: %+v, %v", all, err)
			}
			p.delete("job")
			if all, err := store.List(t.Context(), ""); err != nil || len(all) != 1 || all[0].Name != "mine" {
				t.Errorf("List after PHP's release: %+v, %v", all, err)
			}
			if _, err := store.Extend(t.Context(), "job", r.Token.Text(), 10*time.Second); !errors.Is(err, driver.ErrLost) {
				t.Errorf("Extend after PHP's release: %v", err)
			}
			next := request("job")
			if _, err := store.Acquire(t.Context(), next); err != nil {
				t.Errorf("the next caller: %v", err)
			}
			if out, err := store.Release(t.Context(), "job", r.Token.Text(), 0); out != driver.OutcomeGone || err != nil {
				t.Errorf("Release of the lost lock: %v, %v", out, err)
			}
			if out, err := store.Release(t.Context(), "job", next.Token.Text(), 10*time.Second); out != driver.OutcomeReleased || err != nil {
				t.Errorf("Release: %v, %v", out, err)
			}
			p.delete("job")
			if _, err := store.Acquire(t.Context(), r); err != nil {
				t.Errorf("the cool-down and the spent token are gone, yet: %v", err)
			}
			p.delete("job")
		}
	})
	if notes := strings.Join(guaranteesOf(t).Notes, " "); !strings.Contains(notes, "#65676") {
		t.Errorf("the notes do not tell which PHP is safe: %s", notes)
	}
}

// PHP takes and deletes the item of a name while padlock's first write of it is under way. When
// that write arrives, nobody waits for its hold any more, so it must not keep others out.
func TestLateEffectAfterPHP(t *testing.T) {
	withPHP(t, func(t *testing.T, f *fakes.DynamoDB, s *overhttptest.Service) {
		for late := range 2 { // the creation of the item, or the grant
			front := s.Front()
			store, err := openWithPHP(t.Context(), front)
			if err != nil {
				t.Fatal(err)
			}
			defer store.Close()
			sent := make(chan func() *httptest.ResponseRecorder, 1)
			writes := 0
			front.Next("PutItem", late+1, func(w http.ResponseWriter, carryOut func() *httptest.ResponseRecorder) {
				if writes++; writes <= late {
					out := carryOut()
					w.Header().Set("Date", time.Now().UTC().Format(http.TimeFormat))
					w.WriteHeader(out.Code)
					w.Write(out.Body.Bytes())
					return
				}
				sent <- carryOut
				<-time.After(driver.MaxSilence)
				panic(http.ErrAbortHandler)
			})
			r := request(fmt.Sprint("job", late))
			if _, err := store.Acquire(t.Context(), r); !errors.Is(err, driver.ErrUncertain) {
				t.Fatalf("Acquire: %v", err)
			}
			if out, err := store.Release(t.Context(), r.Name, r.Token.Text(), 0); out != driver.OutcomeGone || err != nil {
				t.Errorf("the clean-up: %v, %v", out, err)
			}
			p := newPHP(t, f)
			if !p.save(r.Name, 10*time.Second) {
				t.Error("PHP does not get a free name")
			}
			p.delete(r.Name)
			(<-sent)()
			if state, err := store.Inspect(t.Context(), r.Name); err != nil || len(state.Holds) > 0 {
				t.Errorf("write %d, after it arrived late: %+v, %v", late, state, err)
			}
			if !p.save(r.Name, 10*time.Second) {
				t.Errorf("write %d, after it arrived late: PHP does not get the name", late)
			}
			<-time.After(driver.MaxSilence) // until the service has given the lost request up
		}
	})
}

// A Break whose first write comes too late ends the lock of PHP's that it has found, although PHP
// has renewed it, and not the lock of another PHP.
func TestBreakMeetsPHP(t *testing.T) {
	for _, renewed := range []bool{true, false} {
		withPHP(t, func(t *testing.T, f *fakes.DynamoDB, s *overhttptest.Service) {
			front := s.Front()
			store, err := openWithPHP(t.Context(), front)
			if err != nil {
				t.Fatal(err)
			}
			defer store.Close()
			first, second := newPHP(t, f), newPHP(t, f)
			first.save("job", 20*time.Second)
			front.Next("PutItem", 1, func(w http.ResponseWriter, carryOut func() *httptest.ResponseRecorder) {
				if renewed {
					<-time.After(time.Second)
					first.putOff("job", 20*time.Second)
				} else {
					first.delete("job")
					second.save("job", 20*time.Second)
				}
				out := carryOut()
				w.Header().Set("Date", time.Now().UTC().Format(http.TimeFormat))
				w.WriteHeader(out.Code)
				w.Write(out.Body.Bytes())
			})
			_, err = store.Break(t.Context(), "job", 0)
			if renewed && (err != nil || first.exists("job")) {
				t.Errorf("Break of a lock that PHP has renewed: %v", err)
			}
			if !renewed && (!errors.Is(err, driver.ErrLost) || !second.exists("job")) {
				t.Errorf("Break, when another PHP has come: %v; it has its lock: %v", err, second.exists("job"))
			}
		})
	}
}
