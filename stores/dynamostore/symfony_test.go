package dynamostore_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/drivertest"
	"github.com/padlock-go/padlock/internal/safety"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/internal/server/fakes"
	"github.com/padlock-go/padlock/storekit/overhttp/overhttptest"
	"github.com/padlock-go/padlock/storekit/register"
	"github.com/padlock-go/padlock/stores/dynamostore"
)

// A php sends the statements of Symfony's DynamoDbStore, of version 7.4 with the fix #65676, by the
// clock of its machine.
type php struct {
	t       *testing.T
	service http.Handler
	ahead   time.Duration // of the machine's clock
	token   string
	unfixed bool // a release has no condition
}

func newPHP(t *testing.T, service http.Handler) *php {
	token := make([]byte, 32)
	rand.Read(token)
	return &php{t: t, service: service, token: base64.StdEncoding.EncodeToString(token)}
}

func hashOf(name string) string {
	sum := sha256.Sum256([]byte(name))
	return hex.EncodeToString(sum[:])
}

// seconds writes a time as PHP writes a float: with 14 digits.
func (p *php) seconds(after time.Duration) text {
	at := time.Now().Add(p.ahead + after)
	return text{"N": fmt.Sprintf("%.14g", float64(at.UnixMicro())/1e6)}
}

// send returns whether the condition is met, and the item that the service returns.
func (p *php) send(operation string, q map[string]any) (bool, map[string]text) {
	p.t.Helper()
	q["TableName"] = "locks-table"
	body, err := json.Marshal(q)
	if err != nil {
		p.t.Fatal(err)
	}
	r := httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(body))
	r.Header.Set("X-Amz-Target", "DynamoDB_20120810."+operation)
	r.Header.Set("Content-Type", "application/x-amz-json-1.0")
	r.Header.Set("X-Amz-Date", "20261123T000000Z")
	r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=test/20261123/us-east-1/dynamodb/aws4_request, SignedHeaders=host, Signature=0")
	out := httptest.NewRecorder()
	p.service.ServeHTTP(out, r)
	var a struct {
		Type string `json:"__type"`
		Item map[string]text
	}
	if err := json.Unmarshal(out.Body.Bytes(), &a); err != nil {
		p.t.Fatal(err)
	}
	if out.Code != http.StatusOK && !strings.Contains(a.Type, "ConditionalCheckFailed") {
		p.t.Fatalf("%s: %d %s", operation, out.Code, a.Type)
	}
	return out.Code == http.StatusOK, a.Item
}

func (p *php) item(name string, ttl time.Duration) map[string]text {
	return map[string]text{"key_id": {"S": hashOf(name)}, "key_token": {"S": p.token}, "key_expiration": p.seconds(ttl)}
}

// save takes a lock, or renews one that is its own already.
func (p *php) save(name string, ttl time.Duration) bool {
	p.t.Helper()
	taken, _ := p.send("PutItem", map[string]any{
		"Item":                      p.item(name, ttl),
		"ConditionExpression":       "attribute_not_exists(#key) OR #expires_at < :now",
		"ExpressionAttributeNames":  map[string]string{"#key": "key_id", "#expires_at": "key_expiration"},
		"ExpressionAttributeValues": map[string]text{":now": p.seconds(0)},
	})
	return taken || p.putOff(name, ttl)
}

func (p *php) putOff(name string, ttl time.Duration) bool {
	p.t.Helper()
	renewed, _ := p.send("PutItem", map[string]any{
		"Item":                      p.item(name, ttl),
		"ConditionExpression":       "attribute_exists(#key) AND (#token = :token OR #expires_at <= :now)",
		"ExpressionAttributeNames":  map[string]string{"#key": "key_id", "#expires_at": "key_expiration", "#token": "key_token"},
		"ExpressionAttributeValues": map[string]text{":now": p.seconds(0), ":token": {"S": p.token}},
	})
	return renewed
}

func (p *php) delete(name string) {
	p.t.Helper()
	if p.unfixed {
		p.send("DeleteItem", map[string]any{"Key": map[string]text{"key_id": {"S": hashOf(name)}}})
		return
	}
	p.send("DeleteItem", map[string]any{
		"Key":                       map[string]text{"key_id": {"S": hashOf(name)}},
		"ConditionExpression":       "#token = :token",
		"ExpressionAttributeNames":  map[string]string{"#token": "key_token"},
		"ExpressionAttributeValues": map[string]text{":token": {"S": p.token}},
	})
}

func (p *php) exists(name string) bool {
	p.t.Helper()
	_, item := p.send("GetItem", map[string]any{"Key": map[string]text{"key_id": {"S": hashOf(name)}}, "ConsistentRead": true})
	var end float64
	fmt.Sscan(item["key_expiration"]["N"], &end)
	return item["key_token"]["S"] == p.token && end > float64(time.Now().Add(p.ahead).UnixMicro())/1e6
}

func openWithPHP(ctx context.Context, f *overhttptest.Front) (*register.Store, error) {
	return dynamostore.Open(ctx, dynamostore.Config{
		Table: "locks-table", SymfonyLayout: true, Endpoint: "http://memory", Credentials: key, Transport: f.Transport(),
	})
}

// withPHP runs a test with Symfony's table, in time that costs nothing.
func withPHP(t *testing.T, test func(t *testing.T, f *fakes.DynamoDB, s *overhttptest.Service)) {
	synctest.Test(t, func(t *testing.T) {
		f := fakes.NewDynamoDB("locks-table")
		f.Key = "key_id"
		s := start(f)
		defer s.Stop()
		test(t, f, s)
	})
}

// both runs a test with a store of padlock and one of PHP.
func both(t *testing.T, test func(t *testing.T, store *register.Store, p *php)) {
	withPHP(t, func(t *testing.T, f *fakes.DynamoDB, s *overhttptest.Service) {
		store, err := openWithPHP(t.Context(), s.Front())
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		test(t, store, newPHP(t, f))
	})
}

// foreign lets PHP take locks.
func foreign(t *testing.T, service http.Handler) func(name string) (release func() error, err error) {
	return func(name string) (func() error, error) {
		p := newPHP(t, service)
		if !p.save(name, 300*time.Second) {
			return nil, errors.New("PHP does not get the lock")
		}
		return func() error { p.delete(name); return nil }, nil
	}
}

// The store passes the suite in Symfony's table, while PHP takes other locks there.
func TestSymfonyContract(t *testing.T) {
	server.Thorough(t)
	withPHP(t, func(t *testing.T, f *fakes.DynamoDB, s *overhttptest.Service) {
		h := s.Harness("PutItem", func(ctx context.Context, front *overhttptest.Front) (driver.Store, error) {
			return openWithPHP(ctx, front)
		}, func() {
			f.Mu.Lock()
			defer f.Mu.Unlock()
			clear(f.Items)
		})
		h.Foreign = foreign(t, f)
		h.Logf = t.Logf
		for _, failure := range drivertest.Check(h) {
			t.Error(failure)
		}
	})
}

// A lock of PHP's keeps padlock out until PHP deletes it, for as long as PHP renews it.
func TestPHPKeepsPadlockOut(t *testing.T) {
	both(t, func(t *testing.T, store *register.Store, p *php) {
		if !p.save("job", 20*time.Second) {
			t.Fatal("PHP does not get a new name")
		}
		refused := func() {
			t.Helper()
			var held *driver.HeldError
			if _, err := store.Acquire(t.Context(), request("job")); !errors.As(err, &held) || !held.Foreign() || !held.Holds[0].Since.IsZero() {
				t.Errorf("Acquire: %+v, %v", held, err)
			}
		}
		for range 3 {
			refused()
			<-time.After(15 * time.Second)
			if !p.putOff("job", 20*time.Second) {
				t.Fatal("PHP cannot renew")
			}
		}
		// The clean-up of a token that has nothing changes the item, and not PHP's lock.
		if out, err := store.Release(t.Context(), "job", "token", 0); out != driver.OutcomeGone || err != nil {
			t.Errorf("Release: %v, %v", out, err)
		}
		refused()
		if !p.exists("job") || !p.putOff("job", 20*time.Second) {
			t.Error("PHP has lost its lock by a clean-up")
		}
		store.Release(t.Context(), "job", "token", 0)
		p.delete("job")
		if _, err := store.Acquire(t.Context(), request("job")); err != nil {
			t.Errorf("after PHP's release: %v", err)
		}
		if p.delete("job"); p.save("job", 20*time.Second) || p.exists("job") {
			t.Error("PHP takes or deletes a lock of padlock's")
		}
	})
}

// A holder, two readers and a cool-down of padlock keep PHP out. PHP gets the name as soon as it is
// free, and padlock as soon as PHP has released it.
func TestPadlockKeepsPHPOut(t *testing.T) {
	both(t, func(t *testing.T, store *register.Store, p *php) {
		for _, shared := range []bool{false, true} {
			var tokens []string
			for range 2 {
				r := request("job")
				if r.Shared = shared; !shared && len(tokens) > 0 {
					break
				}
				if g, err := store.Acquire(t.Context(), r); err != nil || g.Fence != 0 {
					t.Fatalf("Acquire: %+v, %v", g, err)
				}
				tokens = append(tokens, r.Token.Text())
			}
			for n, token := range tokens {
				if p.save("job", 10*time.Second) {
					t.Fatalf("shared=%v: PHP has the lock, too", shared)
				}
				keep := time.Duration(n+1-len(tokens)+1) * 10 * time.Second // after the last one
				if out, err := store.Release(t.Context(), "job", token, max(keep, 0)); out != driver.OutcomeReleased || err != nil {
					t.Errorf("Release: %v, %v", out, err)
				}
			}
			if p.save("job", 10*time.Second) {
				t.Errorf("shared=%v: PHP has the lock during the cool-down", shared)
			}
			if <-time.After(15 * time.Second); !p.save("job", 10*time.Second) {
				t.Errorf("shared=%v: PHP does not get a free name", shared)
			}
			p.delete("job")
		}
		last := request("job")
		if _, err := store.Acquire(t.Context(), last); err != nil {
			t.Fatal(err)
		}
		if out, err := store.Release(t.Context(), "job", last.Token.Text(), 0); out != driver.OutcomeReleased || err != nil || !p.save("job", 10*time.Second) {
			t.Errorf("PHP does not get the name after a release: %v, %v", out, err)
		}
	})
}

// The lock of a holder that died ends for the other side, too. PHP's clock may differ from the
// service's by Skew; if it is further ahead, PHP takes a lock that padlock still has.
func TestClocksWithPHP(t *testing.T) {
	const skew = dynamostore.DefaultSkew
	for _, ahead := range []time.Duration{0, skew, -skew, 12 * time.Second} {
		both(t, func(t *testing.T, store *register.Store, p *php) {
			p.ahead = ahead
			r := request("job")
			sent := time.Now()
			g, err := store.Acquire(t.Context(), r)
			if err != nil {
				t.Fatal(err)
			}
			usable := sent.Add(g.TTL) // it counts from a moment after sent
			<-time.After(usable.Sub(sent) - 10*time.Second)
			if early := p.save("job", 10*time.Second); early != (ahead > 10*time.Second) {
				safety.TooEarly(t, "PHP's clock is %v ahead: PHP has the lock 10 s before the holder's end: %v", ahead, early)
			} else if early {
				return
			}
			<-time.After(time.Until(usable) - time.Millisecond)
			if p.save("job", 10*time.Second) {
				safety.TooEarly(t, "PHP's clock is %v ahead: PHP has the lock before the holder's end", ahead)
			}
			<-time.After(4 * skew)
			if !p.save("job", 10*time.Second) {
				t.Errorf("PHP's clock is %v ahead: PHP does not get the lock of a dead holder", ahead)
			}
			if _, err := store.Extend(t.Context(), "job", r.Token.Text(), 10*time.Second); !errors.Is(err, driver.ErrLost) {
				t.Errorf("Extend of a lock that PHP has taken over: %v", err)
			}
			end := time.Now().Add(10 * time.Second) // as PHP's machine measures time
			<-time.After(time.Until(end) - time.Millisecond)
			if _, err := store.Acquire(t.Context(), request("job")); !errors.Is(err, driver.ErrHeld) {
				t.Errorf("PHP's clock is %v ahead: before the end of PHP's lock: %v", ahead, err)
			}
			<-time.After(4 * skew)
			if _, err := store.Acquire(t.Context(), request("job")); err != nil {
				t.Errorf("PHP's clock is %v ahead: after the end of PHP's lock: %v", ahead, err)
			}
			if p.putOff("job", 10*time.Second) {
				t.Error("PHP renews a lock that padlock has taken over")
			}
		})
	}
	if notes := strings.Join(guaranteesOf(t).Notes, " "); !strings.Contains(notes, "must not differ by more than 1s") {
		t.Errorf("the notes do not tell how far the clocks may differ: %s", notes)
	}
}

func guaranteesOf(t *testing.T) (g driver.Guarantees) {
	both(t, func(_ *testing.T, store *register.Store, _ *php) { g = store.Guarantees() })
	return g
}

// Break takes the lock from PHP. The list knows no names of PHP's, and says so as long as one is
// held.
func TestBreakAndListPHP(t *testing.T) {
	both(t, func(t *testing.T, store *register.Store, p *php) {
		if _, err := store.Acquire(t.Context(), request("mine")); err != nil {
			t.Fatal(err)
		}
		p.save("job", 20*time.Second)
		state, err := store.Inspect(t.Context(), "job")
		if err != nil || state.Fence != 0 || len(state.Holds) != 1 || !state.Holds[0].Foreign {
			t.Errorf("Inspect: %+v, %v", state, err)
		}
		if all, err := store.List(t.Context(), "m"); !errors.Is(err, errors.ErrUnsupported) || len(all) != 1 || all[0].Name != "mine" || all[0].Fence != 0 {
			t.Errorf("List while PHP has a lock: %+v, %v", all, err)
		}
		if _, err := store.Break(t.Context(), "job", 1); !errors.Is(err, driver.ErrLost) {
			t.Errorf("Break of a fence: %v", err)
		}
		if fence, err := store.Break(t.Context(), "job", 0); fence != 0 || err != nil || p.exists("job") {
			t.Errorf("Break: %d, %v", fence, err)
		}
		if all, err := store.List(t.Context(), ""); err != nil || len(all) != 1 {
			t.Errorf("List: %+v, %v", all, err)
		}
		if err := store.RaiseFence(t.Context(), "mine", "token", 1); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("RaiseFence: %v", err)
		}
	})
}

// An item that Symfony has not written is no free name.
func TestNoLockOfPHP(t *testing.T) {
	withPHP(t, func(t *testing.T, f *fakes.DynamoDB, s *overhttptest.Service) {
		store, err := openWithPHP(t.Context(), s.Front())
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		for _, odd := range []map[string]text{{}, {"key_token": {"S": "x"}}, {"key_token": {"S": "x"}, "key_expiration": {"N": "1e300"}}, {"key_expiration": {"N": "1"}}} {
			odd["key_id"] = text{"S": hashOf("job")}
			f.Items[hashOf("job")] = odd
			if _, err := store.Acquire(t.Context(), request("job")); !errors.Is(err, driver.ErrUnavailable) || !strings.Contains(err.Error(), "no lock of Symfony's") {
				t.Errorf("%v: %v", odd, err)
			}
		}
	})
}

// The URL, and the commands that make Symfony's table.
func TestSymfonyURL(t *testing.T) {
	noEnvironment(t)
	scheme := dynamostore.Scheme()
	statements, err := scheme.Schema(parse(t, "dynamodb://lock_keys?layout=symfony&region=eu-west-1"))
	if err != nil || len(statements) != 2 || !strings.Contains(statements[0], "AttributeName=key_id,KeyType=HASH") {
		t.Errorf("%q, %v", statements, err)
	}
	f := fakes.NewDynamoDB("locks-table")
	f.Key = "key_id"
	u := parse(t, "dynamodb://locks-table?layout=symfony&endpoint="+serve(t, f))
	store, err := dynamostore.FromURL(t.Context(), u)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	if _, err := store.Acquire(t.Context(), request("job")); err != nil || f.Items[hashOf("job")]["key_token"]["S"] != "padlock" {
		t.Errorf("Acquire: %v, %v", f.Items, err)
	}
	for rawURL, want := range map[string]string{
		"dynamodb://locks-table?region=r&layout=php":          "layout: it is symfony",
		"dynamodb://locks-table?region=r&layout=":             "layout",
		"dynamodb://locks-table/shop?region=r&layout=symfony": "no prefix",
	} {
		if _, err := dynamostore.FromURL(t.Context(), parse(t, rawURL)); !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", rawURL, err)
		}
	}
}
