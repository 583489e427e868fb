package facetest

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"encoding/xml"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/safety"
	"github.com/padlock-go/padlock/stores/memstore"
)

// travel sends a key as text, as it would go to another process.
func travel(t *testing.T, h *padlock.Lock) padlock.Key {
	t.Helper()
	key, err := h.Export(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	text := key.Text()
	if strings.Trim(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") != "" {
		t.Errorf("the text of a key is no plain word: %q", text)
	}
	arrived, err := padlock.ParseKey(text)
	if err != nil {
		t.Fatal(err)
	}
	if !arrived.Equal(key) || arrived.Name() != h.Name() {
		t.Errorf("%v was sent, %v arrived", key, arrived)
	}
	return arrived
}

func TestAdopt(t *testing.T) {
	for _, shared := range []bool{false, true} {
		everyKind(t, func(t *testing.T, s padlock.Store) {
			l := newLocker(t, s)
			var opts []padlock.Option
			if shared {
				opts = append(opts, padlock.Shared())
			}
			for _, name := range namesOfAnyKind {
				h := acquire(t, l, name, opts...)
				adopted, err := l.Adopt(t.Context(), travel(t, h))
				if err != nil {
					t.Fatal(err)
				}
				if adopted.Name() != name || adopted.Shared() != shared || !safety.Rises(t, adopted.Fence(), h.Fence()) {
					t.Errorf("adopted %q, shared %v", adopted.Name(), adopted.Shared())
				}
				// The exporter learns that it has lost the lock when it asks the store.
				wantOnly(t, h.Check(t.Context()), "check", padlock.ErrLost)
				wantOnly(t, context.Cause(h.Context()), "hold", padlock.ErrLost)
				wantOnly(t, h.Release(), "release", padlock.ErrLost)
				if err := adopted.Check(t.Context()); err != nil {
					t.Errorf("the exporter has hurt the adopter: %v", err)
				}
				<-time.After(time.Minute) // renewed
				release(t, adopted)
			}
		})
	}
}

// An exported lock works as before until it is adopted; its next renewal shows that.
func TestExportedLockGoesOnUntilItIsAdopted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		l, other := newLocker(t, store), newLocker(t, store.Open())
		h := acquire(t, l, "job")
		key := travel(t, h)
		<-time.After(time.Hour)
		if h.Remaining() == 0 {
			t.Fatal("an exported lock is not renewed")
		}
		adopted, err := other.Adopt(t.Context(), key, padlock.Label("adopter"))
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		<-h.Context().Done()
		if d := time.Since(start); d > 11*time.Second {
			t.Errorf("the exporter noticed it after %v", d)
		}
		wantOnly(t, context.Cause(h.Context()), "hold", padlock.ErrLost)
		// A key can be used for one adoption only.
		_, err = l.Adopt(t.Context(), key)
		wantOnly(t, err, "adopt", padlock.ErrLost)
		release(t, adopted)
		h.Release()
	})
}

// Adopt never acquires a name that is free.
func TestAdoptOfWhatIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newRemote()
		l := newLocker(t, store)
		h := acquire(t, l, "job", padlock.NoRenewal(), padlock.TTL(time.Second))
		expired := travel(t, h)
		<-time.After(2 * time.Second)
		_, err := l.Adopt(t.Context(), expired)
		wantOnly(t, err, "adopt", padlock.ErrLost)
		h.Release()
		h = acquire(t, l, "job")
		released := travel(t, h)
		release(t, h)
		_, err = l.Adopt(t.Context(), released)
		wantOnly(t, err, "adopt", padlock.ErrLost)
		_, err = l.Adopt(t.Context(), padlock.Key{})
		wantOnly(t, err, "adopt", padlock.ErrInvalid)
		if !free(t, store, "job") {
			t.Error("an Adopt that failed has taken the lock")
		}
		_, err = h.Export(t.Context())
		wantOnly(t, err, "export", padlock.ErrReleased)
	})
}

// The reply to an adoption is lost. The repeated request has the same result.
func TestAdoptWithoutAReply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newRemote()
		l := newLocker(t, store)
		key := travel(t, acquire(t, l, "job"))
		store.reply("acquire", first(2, lost))
		adopted, err := l.Adopt(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		key = travel(t, adopted)
		store.reply("acquire", lost)
		_, err = l.Adopt(t.Context(), key)
		wantOnly(t, err, "adopt", padlock.ErrUncertain)
		<-time.After(2 * time.Second)
		if !free(t, store, "job") {
			t.Error("an adoption that nobody got is not cleaned up")
		}
		adopted.Release()
	})
}

func TestBoundStoresRefuseToExport(t *testing.T) {
	for _, bound := range []driver.Bound{driver.BoundToConnection, driver.BoundToProcess} {
		key := travel(t, acquire(t, newLocker(t, memstore.New()), "job"))
		store := newRemote()
		store.guarantees.Bound = bound
		l := newLocker(t, store)
		h := acquire(t, l, "job")
		_, err := h.Export(t.Context())
		wantOnly(t, err, "export", errors.ErrUnsupported)
		_, err = l.Adopt(t.Context(), key)
		wantOnly(t, err, "adopt", errors.ErrUnsupported)
		release(t, h)
	}
}

// A text that is not a key is refused. The error does not repeat the text, which may be a secret.
func TestTextsThatAreNoKeys(t *testing.T) {
	good := travel(t, acquire(t, newLocker(t, memstore.New()), "job")).Text()
	for _, text := range []string{
		"", "padlock1.", "padlock2." + good[9:], good[:len(good)-3], good + "!", good[9:],
		"padlock1.e30", "padlock1." + strings.Repeat("A", 5000), "padlock1.eyJuIjoiIiwidCI6IngifQ",
		"padlock1.eyJuIjoiYSJ9", "secret-canary",
		keyText("job", "__write__"), keyText("job", strings.Repeat("t", driver.MaxToken+1)),
		keyWord(map[string]any{"n": []byte("job"), "t": "token", "i": "a b"}),
		keyWord(map[string]any{"n": []byte("job"), "t": "token", "i": strings.Repeat("i", driver.MaxStoreID+1)}),
	} {
		key, err := padlock.ParseKey(text)
		if !errors.Is(err, padlock.ErrInvalid) || !key.Equal(padlock.Key{}) {
			t.Errorf("%.40q: %v, %v", text, key, err)
		} else if len(text) > 10 && strings.Contains(err.Error(), text[9:]) {
			t.Errorf("the error repeats the text: %v", err)
		}
	}
}

// keyText is the text of a key that somebody made up.
func keyText(name, token string) string {
	return keyWord(map[string]any{"n": []byte(name), "t": token})
}

func keyWord(fields map[string]any) string {
	body, err := json.Marshal(fields)
	if err != nil {
		panic(err)
	}
	return "padlock1." + base64.RawURLEncoding.EncodeToString(body)
}

func FuzzKey(f *testing.F) {
	f.Add("padlock1.eyJuIjoiYm05ciIsInQiOiJ0In0")
	f.Add("padlock1.")
	f.Add("padlock2.eyJuIjoiYm05ciIsInQiOiJ0In0")
	f.Add(keyWord(map[string]any{"n": []byte("job"), "t": "token", "s": true, "i": "Store-Id_1"}))
	f.Fuzz(func(t *testing.T, text string) {
		key, err := padlock.ParseKey(text)
		if err != nil {
			return
		}
		if back, err := padlock.ParseKey(key.Text()); err != nil || !back.Equal(key) {
			t.Errorf("%q became %v, then %v, %v", text, key, back, err)
		}
	})
}

// An encoder refuses a key, wherever it lies, and says what to write instead.
func TestEncodersRefuseKeys(t *testing.T) {
	key := travel(t, acquire(t, newLocker(t, memstore.New()), "job"))
	type message struct{ Key padlock.Key }
	for _, v := range []any{key, message{key}, &message{key}, []padlock.Key{key}, map[string]any{"k": key}} {
		if _, err := json.Marshal(v); err == nil || !strings.Contains(err.Error(), "Key.Text()") {
			t.Errorf("json, %T: %v", v, err)
		}
	}
	if _, err := xml.Marshal(message{key}); err == nil || !strings.Contains(err.Error(), "Key.Text()") {
		t.Errorf("xml: %v", err)
	}
	if err := json.Unmarshal([]byte(`{"Key":"`+key.Text()+`"}`), new(message)); err == nil {
		t.Error("json reads a key")
	}
}

// All events of a permit have the name that the caller of Acquire gave, even if the permit is
// adopted.
func TestEventsOfAnAdoptedPermit(t *testing.T) {
	rec := &recorder{}
	l := newLocker(t, memstore.New(), padlock.Observe(padlock.ObserverFunc(rec.on)))
	key, err := acquire(t, l, "job", padlock.Slots(2)).Export(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	h, err := l.Adopt(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	release(t, h)
	if n := len(rec.all()); n < 6 {
		t.Errorf("%d events", n)
	}
	for _, e := range rec.all() {
		if e.Name != "job" {
			t.Errorf("%v of %q", e.Kind, e.Name)
		}
	}
}
