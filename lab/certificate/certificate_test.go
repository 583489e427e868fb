package certificate

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

func example() *Certificate {
	c := &Certificate{
		Format: Format, Kind: "redis", URL: "redis://db1:6379", Made: time.Date(2026, 11, 28, 2, 0, 0, 0, time.UTC), Seconds: 61.5,
		Padlock: "v1.2.3", Machine: "linux/amd64, 2 processors, load 0.81 before", For: "12s", Names: "padlock-verify-A", Left: "two keys",
		Service:  []Fact{{"server", "7.0.15 <&>", ""}, {"persistence", "no append-only file", "set appendonly yes"}},
		Promises: []string{"leases: true"},
		Questions: []Question{
			{Name: "conditions/2", Asked: "one of 2 gets it", Verdict: Held, Counts: map[string]int{"rounds": 12, "writers": 2}, Seconds: 2},
			{Name: "conditions/4", Asked: "one of 4 gets it", Verdict: Held, Counts: map[string]int{"rounds": 9, "writers": 4}},
			{Name: "acquire/one", Verdict: Held}, {Name: "acquire/two", Verdict: Held},
			{Name: "conditions/16", Asked: "one of 16 gets it", Verdict: Broke, Seen: []string{"round 4: 2 of 16"}, Repeat: "padlock-verify …"},
			{Name: "restart/keeps-holds", Asked: "holds stay", Verdict: NotAsked, Why: "it is not restarted"},
		},
	}
	c.Judge()
	return c
}

func TestFile(t *testing.T) {
	t.Parallel()
	data, err := example().Encode()
	if err != nil {
		t.Fatal(err)
	}
	c, err := Decode(data)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := c.Encode(); err != nil || !bytes.Equal(again, data) {
		t.Errorf("%s\nwas read, and written as\n%s%v", data, again, err)
	}
	for from, to := range map[string]string{
		`"broke"`:      `"held"`,
		`"rounds": 12`: `"rounds": 13`,
		`"kind"`:       `"signed": true, "kind"`, // a member that no reader knows
		`sha256`:       `sha512`,
		`]`:            ``,
	} {
		changed := bytes.Replace(data, []byte(from), []byte(to), 1)
		if _, err := Decode(changed); err == nil || bytes.Equal(changed, data) {
			t.Errorf("%s in place of %s was not noticed", to, from)
		}
	}
	newer := example()
	newer.Format++
	data, err = newer.Encode()
	if _, refused := Decode(data); err != nil || refused == nil || !strings.Contains(refused.Error(), "format") {
		t.Errorf("a newer file: %v, %v", err, refused)
	}
}

func TestJudge(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		questions []Verdict
		want      Verdict
	}{
		{nil, NotAsked},
		{[]Verdict{NotAsked}, NotAsked},
		{[]Verdict{NotAsked, Held, NotAsked}, Held},
		{[]Verdict{Broke, Held}, Broke},
	} {
		file := &Certificate{}
		for _, v := range c.questions {
			file.Questions = append(file.Questions, Question{Verdict: v})
		}
		if file.Judge(); file.Verdict != c.want {
			t.Errorf("%v: %s, want %s", c.questions, file.Verdict, c.want)
		}
	}
}

// A setting that broke a question is said once, and without the class of the error.
func TestWhatBrokeIsPlain(t *testing.T) {
	t.Parallel()
	c := example()
	c.Service = append(c.Service, Fact{"eviction", "allkeys-lru", "set noeviction"})
	c.Questions = append(c.Questions, Question{Name: "settings/eviction", Asked: "no lock is evicted", Verdict: Broke,
		Seen: []string{"invalid parameter: eviction is allkeys-lru: set noeviction"}})
	var shown, page strings.Builder
	if err := c.Show(&shown); err != nil {
		t.Fatal(err)
	}
	c.details(&page, "redis")
	for name, text := range map[string]string{"show": shown.String(), "page": page.String()} {
		if n := strings.Count(text, "allkeys-lru"); n != 1 || strings.Contains(text, "invalid parameter") {
			t.Errorf("%s names the setting %d times:\n%s", name, n, text)
		}
	}
}

func TestShow(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	if err := example().Show(&b); err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{
		"BROKE: redis 7.0.15 <&>, redis://db1:6379\nmade on 28 November 2026, 02:00 UTC in 62 s by padlock v1.2.3",
		"\nBROKE  conditions/16: one of 16 gets it\n       seen:   round 4: 2 of 16\n       repeat: padlock-verify …\n",
		"\nheld:\n  conditions/2: rounds 12, writers 2\n  conditions/4: rounds 9, writers 4\n  acquire (2 questions)\n",
		"\nwhat the store promises with this service:\n- leases: true\n",
		"\nleft behind, with padlock-verify-A in the name: two keys\n",
		"\nmade with --for 12s: ",
		"\nnot asked:\n  it is not restarted: restart/keeps-holds\n",
		"\nas the service is set up:\n  persistence: no append-only file; set appendonly yes\n",
	} {
		if !strings.Contains(b.String(), part) {
			t.Errorf("%q is not in\n%s", part, b.String())
		}
	}
}
