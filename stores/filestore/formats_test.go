//go:build linux

package filestore

import (
	"bytes"
	"encoding/hex"
	"os"
	"reflect"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
)

// These are the bytes of format 1. Lock files with them exist, so they never change: a new format
// needs a new number and golden bytes of its own, and these must still be read.
const (
	goldenRecord = "504c4b31" + "6eac1635" + "9e00" + "01" + "0000000000" + "0102030405060708090a0b0c0d0e0f10" +
		"f0debc9a78560400" + "0c00000000000000" + "01000000000000000000000000000000" + "00000000000000000000000000000000" +
		"0500000000000000" + "06000000000000000000000000000000" + goldenOwner + "0400" + "6e616d65"
	goldenReader = "504c5331" + "db886c99" + "6000" + "000000000000" + "0102030405060708090a0b0c0d0e0f10" +
		"0300000000000000" + "0400000000000000" + goldenOwner
	goldenOwner = "070000000b000000" + "0900000000000000" + "0a00000000000000" + "0c00000000000000" + "0d00000000000000" +
		"0200" + "6831" + "0200" + "6c31"
)

func goldenValues() (record, readerRecord) {
	boot := [16]byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}
	o := owner{proc: 7, pidns: 9, start: 10, pid: 11, since: 12, plan: 13, host: []byte("h1"), label: []byte("l1")}
	r := record{
		valid: true, mode: modeExclusive, boot: boot, fence: 0x456789abcdef0, epoch: 12,
		cool: moment{wall: 1}, intent: 5, intentEnd: moment{wall: 6}, owner: o, name: []byte("name"),
	}
	return r, readerRecord{valid: true, boot: boot, id: 3, epoch: 4, owner: o}
}

func TestFormat1OfTheRecord(t *testing.T) {
	want, wantReader := goldenValues()
	b, err := hex.DecodeString(goldenRecord)
	if err != nil {
		t.Fatal(err)
	}
	var got record
	if got.decode(b); !reflect.DeepEqual(got, want) {
		t.Errorf("read as  %+v\nwant %+v", got, want)
	}
	if text := hex.EncodeToString(want.encode(nil)); text != goldenRecord {
		t.Errorf("written as %s\nwant %s", text, goldenRecord)
	}
	if b, err = hex.DecodeString(goldenReader); err != nil {
		t.Fatal(err)
	}
	if got := decodeReader(b); !reflect.DeepEqual(got, wantReader) {
		t.Errorf("read as  %+v\nwant %+v", got, wantReader)
	}
	if text := hex.EncodeToString(wantReader.encode(nil)); text != goldenReader {
		t.Errorf("written as %s\nwant %s", text, goldenReader)
	}
}

// writeNewer makes the head of a lock file look as if a newer padlock had written it.
func writeNewer(t *testing.T, path string) (head []byte) {
	t.Helper()
	head = append([]byte("PLK2\x00\x00\x00\x00\x00\x00 what this build cannot know"), make([]byte, 200)...)
	seal(head)
	return writeAt(t, path, 0, head)
}

func writeAt(t *testing.T, path string, offset int64, b []byte) []byte {
	t.Helper()
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := file.WriteAt(b, offset); err != nil {
		t.Fatal(err)
	}
	return b
}

func wantBytes(t *testing.T, path string, offset int, want []byte) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(b[offset:offset+len(want)], want) {
		t.Errorf("what the newer padlock wrote was changed (%v)", err)
	}
}

func wantNewer(t *testing.T, what string, err error) {
	t.Helper()
	if err == nil {
		t.Fatalf("%s: no error", what)
	}
	wantErr(t, err, driver.ErrUnavailable, "newer padlock", "update", "move the file away")
}

func TestRecordOfANewerPadlockIsLeftAlone(t *testing.T) {
	s := open(t, t.TempDir())
	path := pathOf(s, "n")
	head := writeNewer(t, path)
	_, err := s.Acquire(patience(t), request("n", "a"))
	wantNewer(t, "Acquire", err)
	_, err = s.Acquire(patience(t), shared("n", "a"))
	wantNewer(t, "Acquire shared", err)
	_, err = s.Wait(patience(t), request("n", "a"), true)
	wantNewer(t, "Wait", err)
	_, err = s.Break(patience(t), "n", 0)
	wantNewer(t, "Break", err)
	_, err = s.Inspect(patience(t), "n")
	wantNewer(t, "Inspect", err)
	take(t, s, request("other", "a"))
	list, err := s.List(patience(t), "")
	wantNewer(t, "List", err)
	if len(list) != 1 || list[0].Name != "other" {
		t.Errorf("listed: %+v", list)
	}
	wantBytes(t, path, 0, head)
	if err := os.Remove(path); err != nil { // as the error advises
		t.Fatal(err)
	}
	take(t, s, request("n", "b"))
}

// A reader with an older padlock does not overwrite a record that a newer padlock has written
// meanwhile.
func TestReaderBesideANewerPadlock(t *testing.T) {
	s := open(t, t.TempDir())
	r := shared("n", "a")
	take(t, s, r)
	head := writeNewer(t, pathOf(s, "n"))
	held(t, s, "n", "a")
	_, err := s.Release(patience(t), "n", "a", time.Minute)
	wantNewer(t, "Release with a cool-down", err)
	wantNewer(t, "RaiseFence", s.RaiseFence(patience(t), "n", "a", 1<<52))
	r.Shared = false
	_, err = s.Convert(patience(t), r)
	wantNewer(t, "promotion", err)
	wantBytes(t, pathOf(s, "n"), 0, head)
	release(t, s, "n", "a", driver.OutcomeReleased)
	wantBytes(t, pathOf(s, "n"), 0, head)
}

// A newer padlock that has the lock is shown as a holder that is not foreign.
func TestHeldByANewerPadlock(t *testing.T) {
	dir := t.TempDir()
	s, other := open(t, dir), open(t, dir)
	take(t, other, request("n", "a"))
	writeNewer(t, pathOf(s, "n"))
	no := refused(t, s, request("n", "b"))
	if len(no.Holds) != 1 || no.Holds[0].Foreign || no.Holds[0].PID != os.Getpid() {
		t.Errorf("held by %+v", no.Holds)
	}
	if _, err := s.List(patience(t), "n"); err == nil {
		t.Error("List reports nothing")
	}
}

// If a child has unlocked the file and a newer padlock has had the lock since then, the hold is
// lost.
func TestPassedHoldAfterANewerPadlock(t *testing.T) {
	s := open(t, t.TempDir())
	take(t, s, request("n", "a"))
	writeNewer(t, pathOf(s, "n"))
	lost(t, s, "n", "a")
}
