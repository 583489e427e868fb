package phpcodec_test

import (
	"bytes"
	"errors"
	"reflect"
	"runtime"
	"testing"
	"time"

	"github.com/padlock-go/padlock/web/session/phpcodec"
)

// bounded fails if f takes too much memory or time for an input of this size.
func bounded(t *testing.T, size int, f func()) {
	t.Helper()
	const perByte, patience = 400, 10 * time.Second
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start := time.Now()
	f()
	took := time.Since(start)
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > uint64(1<<20+perByte*size) {
		t.Errorf("%d bytes of input took %d bytes of memory", size, n)
	}
	if took > patience {
		t.Errorf("%d bytes of input took %v", size, took)
	}
}

func FuzzParse(f *testing.F) {
	for _, x := range fixtures(f) {
		f.Add(x.Data)
	}
	f.Add([]byte("k|a:99999999:{i:0;a:99999999:{i:0;"))
	f.Add([]byte("a:99999999:{i:0;a:99999999:{i:0;"))
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, h := range handlers {
			var d *phpcodec.Document
			var err error
			bounded(t, len(data), func() { d, err = phpcodec.Parse(h, data) })
			if err != nil {
				if !errors.Is(err, phpcodec.ErrSyntax) && !errors.Is(err, phpcodec.ErrIgbinary) {
					t.Errorf("%s: %v", h, err)
				}
				continue
			}
			fuzzDocument(t, h, d, data)
		}
	})
}

func fuzzDocument(t *testing.T, h phpcodec.Handler, d *phpcodec.Document, data []byte) {
	t.Helper()
	if got := encode(t, d); !bytes.Equal(got, data) && len(data) > 0 && d.Len() > 0 {
		t.Errorf("%s: %q became %q", h, data, got)
	}
	if err := d.Set("fuzz", []byte("i:1;")); err != nil && !errors.Is(err, phpcodec.ErrReferences) {
		t.Errorf("%s: %v", h, err)
	}
	again, err := phpcodec.Parse(h, encode(t, d))
	if err != nil || again.Len() != d.Len() {
		t.Errorf("%s: with a key more: %v", h, err)
	}
	for i := range d.Len() {
		if _, raw := d.At(i); !phpcodec.Same(raw, raw) {
			t.Errorf("%q is not the same as itself", raw)
		}
	}
}

func FuzzUnmarshal(f *testing.F) {
	for _, x := range fixtures(f) {
		d := x.parse(f)
		for i := range d.Len() {
			_, raw := d.At(i)
			f.Add(raw)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var v any
		var err error
		bounded(t, len(data), func() { err = phpcodec.Unmarshal(data, &v) })
		if err != nil {
			return
		}
		var u user
		bounded(t, len(data), func() { _ = phpcodec.Unmarshal(data, &u) })
		raw, err := phpcodec.Marshal(v)
		if err != nil {
			t.Fatalf("%q was read and cannot be written: %v", data, err)
		}
		var again any
		if err := phpcodec.Unmarshal(raw, &again); err != nil {
			t.Fatalf("%q was written and cannot be read: %v", raw, err)
		}
		if !phpcodec.Same(raw, data) && !reflect.DeepEqual(v, again) {
			t.Errorf("%q became %q", data, raw)
		}
	})
}
