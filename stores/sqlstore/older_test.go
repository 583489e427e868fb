package sqlstore

import (
	"encoding/json"
	"strings"
	"testing"
)

// olderMore is a value of the column "more". It has every field that the first builds of this
// package write.
const olderMore = `{"holds":[{"t":"cg","s":true,"r":true,"f":12,"b":1,"u":2,"l":3,"h":{"host":"web-3","label":"a"}}],` +
	`"queue":[{"t":"Yg","s":true,"a":9,"p":true,"u":4,"h":{}},{"t":"Yw","u":5,"h":{}}],` +
	`"lost":["ZA"],"spent":[{"t":"ZQ","u":6}],"intent":{"t":"Zg","u":7},"free":8,"cool":9,"cooled":{"label":"g"}}`

// This build reads and writes the same texts as older builds, but for the earliest end of a hold.
func TestOlderMore(t *testing.T) {
	var m moreColumn
	if err := decode(olderMore, &m); err != nil {
		t.Fatal(err)
	}
	s := &state{}
	s.addMore(&m)
	want := strings.Replace(olderMore, `"l":3,`, "", 1)
	if text, err := json.Marshal(s.moreOf(s.Holds)); err != nil || string(text) != want {
		t.Errorf("got  %s, %v\nwant %s", text, err, want)
	}
}
