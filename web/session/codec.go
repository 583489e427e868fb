package session

// A Codec encodes single values. It must encode an integer as decimal text, so that a store can add
// to it. The text of an integer must decode into any integer type in which it fits. A Codec is safe
// for concurrent use.
type Codec interface {
	// Marshal encodes v.
	Marshal(v any) ([]byte, error)
	// Unmarshal decodes data into the variable that v points to.
	Unmarshal(data []byte, v any) error
}
