package padlockapi

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// maxBody is the largest size of a body. The largest useful one has a name and a label whose bytes
// are all written as \u00XX.
const maxBody = 16 << 10

// minToken is the length of the shortest token. Two clients with the same token are one caller, so
// a token such as a process number would let both of them in.
const minToken = 16

// requestBody has all that a client can send. Each operation accepts some of the fields.
type requestBody struct {
	name, token, label, prefix, reason string
	replaces                           string
	ttlMS, waitMS, keepMS              int64
	slots, slot                        int64
	fence, fenceAbove, fenceAtLeast    int64
	shared                             bool

	given []string // the fields that were sent
}

// field returns a pointer to the field of the body with the given name in JSON. Its type is the
// type of the JSON value.
func (b *requestBody) field(key string) any {
	switch key {
	case "name", "name_base64":
		return &b.name
	case "token":
		return &b.token
	case "label":
		return &b.label
	case "prefix", "prefix_base64":
		return &b.prefix
	case "replaces":
		return &b.replaces
	case "reason":
		return &b.reason
	case "ttl_ms":
		return &b.ttlMS
	case "wait_ms":
		return &b.waitMS
	case "keep_ms":
		return &b.keepMS
	case "slots":
		return &b.slots
	case "slot":
		return &b.slot
	case "fence":
		return &b.fence
	case "fence_above":
		return &b.fenceAbove
	case "fence_at_least":
		return &b.fenceAtLeast
	case "shared":
		return &b.shared
	}
	return nil
}

func (b *requestBody) has(key string) bool { return slices.Contains(b.given, key) }

// maxNumber is above every number that has a meaning: fences are below 1<<53.
const maxNumber = 1 << 53

// parseBody reads a body strictly. encoding/json would accept other spellings of the fields, a
// field that occurs twice, and text that is not UTF-8. Then two clients could mean different locks
// and get the same one.
func parseBody(text []byte, op *operation) (*requestBody, error) {
	if !utf8.Valid(text) || !json.Valid(text) {
		return nil, errors.New("the body is not JSON in UTF-8")
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if start, err := d.Token(); err != nil || start != json.Delim('{') {
		return nil, errors.New("the body is not a JSON object")
	}
	b := &requestBody{}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return nil, errors.New("the body is not JSON")
		}
		name, _ := key.(string)
		switch {
		case !slices.Contains(op.accepts, name):
			return nil, fmt.Errorf("a field is unknown: %s has only %s", op.path, strings.Join(op.accepts, ", "))
		case b.has(strings.TrimSuffix(name, inBase64)):
			return nil, fmt.Errorf("the field %s is there twice", strings.TrimSuffix(name, inBase64))
		}
		b.given = append(b.given, strings.TrimSuffix(name, inBase64))
		value, err := d.Token()
		if err == nil {
			err = setField(b.field(name), value)
		}
		if err == nil && strings.HasSuffix(name, inBase64) {
			err = decode(b.field(name))
		}
		if err != nil {
			return nil, fmt.Errorf("the field %s: %w", name, err)
		}
	}
	for _, name := range op.needs {
		if !b.has(name) {
			return nil, fmt.Errorf("the field %s is missing", name)
		}
	}
	return b, nil
}

// inBase64 ends the names of fields for bytes that are not UTF-8.
const inBase64 = "_base64"

// decode replaces a text in base64 by its bytes.
func decode(field any) error {
	text, ok := field.(*string)
	if !ok {
		return errors.New("it is no text")
	}
	data, err := base64.StdEncoding.Strict().DecodeString(*text)
	if err != nil {
		return errors.New("it must be in base64, with padding")
	}
	*text = string(data)
	return nil
}

func setField(field any, value json.Token) error {
	switch to := field.(type) {
	case *string:
		text, ok := value.(string)
		switch {
		case !ok:
			return errors.New("it must be a string")
		case strings.ContainsRune(text, utf8.RuneError): // also what Go makes of half a surrogate pair
			return errors.New("it has the character U+FFFD, or half a surrogate pair")
		}
		*to = text
	case *bool:
		flag, ok := value.(bool)
		if !ok {
			return errors.New("it must be true or false")
		}
		*to = flag
	case *int64:
		number, ok := value.(json.Number)
		n, err := strconv.ParseInt(string(number), 10, 64)
		if !ok || err != nil || n < 0 || n >= maxNumber {
			return errors.New("it must be a whole number from 0 to 9007199254740991")
		}
		*to = n
	}
	return nil
}

// duration returns a time of the body. It cuts times that a Duration cannot have; every such time
// is above all limits.
func duration(ms int64) time.Duration {
	return time.Duration(min(ms, int64(1000*time.Hour/time.Millisecond))) * time.Millisecond
}

var errTooLarge = fmt.Errorf("the body has more than %d bytes", maxBody)

// readBody reads a body of at most maxBody bytes.
func readBody(from io.Reader) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(from, maxBody+1))
	if err == nil && len(text) > maxBody {
		err = errTooLarge
	}
	return text, err
}
