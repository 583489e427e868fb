package memcachestore

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// The store uses the following meta commands of memcached (docs/protocol.txt of memcached 1.6). In
// the table, T60 stands for T and a number of seconds, and C7 stands for C and the ID of a value:
//
//	command               what it does                       reply
//	ms KEY LENGTH ME T60  adds a value that lasts for 60 s   HD, or NS if the key has a value
//	ms KEY LENGTH C7 T60  replaces the value if its ID is 7  HD, EX (other ID) or NF (no value)
//	md KEY C7             removes the value if its ID is 7   HD, EX or NF
//	mg KEY v c t          reads the value, ID and seconds    VA, or EN if there is no value
//	mn                    does nothing                       MN
//
// Every write gives the value a new ID. So if two processes read the same ID and both replace the
// value, one of them fails. A server that was restarted begins to count the IDs again. So a request
// with an ID is sent only over the connection over which the store has read the ID.

// reply is the server's reply to one request.
type reply struct {
	text  string   // the first line
	word  string   // its first word
	flags []string // its other words
	value []byte   // the value, if the word is VA
	stats []string // the lines of a stats command
	over  *link    // the connection over which the reply came
}

// flag returns the text of a flag such as c or t, or "".
func (r *reply) flag(letter string) string {
	for _, f := range r.flags {
		if rest, ok := strings.CutPrefix(f, letter); ok {
			return rest
		}
	}
	return ""
}

// confused reports whether the connection may be out of step after this reply: the server may have
// read the value of a refused request as a command.
func (r *reply) confused() bool { return r.word == "ERROR" || r.word == "CLIENT_ERROR" }

// maxValue is the length of the longest value that the store reads. padlock itself writes shorter
// values, but other programs may write values, too.
const maxValue = 1 << 20

func readReply(from *bufio.Reader) (reply, error) {
	line, err := readText(from)
	if err != nil {
		return reply{}, err
	}
	word, rest, _ := strings.Cut(line, " ")
	r := reply{text: line, word: word, flags: strings.Fields(rest)}
	switch word {
	case "VA":
		err = r.readValue(from)
	case "STAT":
		for err == nil && line != "END" {
			r.stats = append(r.stats, line)
			line, err = readText(from)
		}
	}
	return r, err
}

func readText(from *bufio.Reader) (string, error) {
	line, err := from.ReadSlice('\n')
	return strings.TrimRight(string(line), "\r\n"), err
}

func (r *reply) readValue(from *bufio.Reader) error {
	if len(r.flags) == 0 {
		return errors.New("a reply without a length")
	}
	n, err := strconv.Atoi(r.flags[0])
	if err != nil || n < 0 || n > maxValue {
		return errors.New("a value of an impossible length, which is no lock")
	}
	data := make([]byte, n+2)
	if _, err := io.ReadFull(from, data); err != nil {
		return err
	}
	r.flags = r.flags[1:]
	r.value = bytes.TrimSuffix(data, []byte("\r\n"))
	return nil
}

// A key is the part of a request that names an entry. If the flag is " b", the text is in base64. A
// plain text with a newline in it would be read as another command.
type key struct{ text, flag string }

func keyOf(text string) key {
	for i := range len(text) {
		if text[i] <= ' ' || text[i] == 0x7f {
			return key{base64.StdEncoding.EncodeToString([]byte(text)), " b"}
		}
	}
	return key{text, ""}
}

func addRequest(k key, value []byte, life int) []byte {
	return fmt.Appendf(nil, "ms %s %d%s ME T%d\r\n%s\r\n", k.text, len(value), k.flag, life, value)
}

func swapRequest(k key, id string, value []byte, life int) []byte {
	return fmt.Appendf(nil, "ms %s %d%s C%s T%d\r\n%s\r\n", k.text, len(value), k.flag, id, life, value)
}

func removeRequest(k key, id string) []byte {
	return fmt.Appendf(nil, "md %s%s C%s\r\n", k.text, k.flag, id)
}

func readRequest(k key) []byte { return fmt.Appendf(nil, "mg %s%s v c t\r\n", k.text, k.flag) }

func loginRequest(user, password string) []byte {
	text := user + " " + password
	return fmt.Appendf(nil, "set padlock 0 0 %d\r\n%s\r\n", len(text), text)
}
