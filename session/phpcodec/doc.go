// Package phpcodec reads and writes PHP's sessions, so that PHP and Go can
// serve the same logged-in user: the formats php, php_serialize and php_binary
// of session.serialize_handler.
//
// A [Document] is a parsed session. What is not touched is written back byte
// for byte and in its place: objects, enums and values of other programs stay
// what they are. [Marshal] and [Unmarshal] translate single values.
//
// # Hostile input
//
// Parsing takes time and memory in proportion to the length of the input; what
// an input declares is not believed before it is there. Nesting is limited to
// [MaxDepth], as in PHP, the whole to [MaxSize], and the keys to [MaxKeys]: what
// is beyond is refused ([ErrLimit]), and nothing is written that would be. No
// object is ever made out of data: they stay opaque ([Object]).
//
// # References
//
// PHP writes a variable that stands twice as a number (R:2; or r:2;), counted
// over the whole session. Values with such numbers in them are kept and not
// decoded, and a change that would move what a number points to is refused, both
// with [ErrReferences]. New keys can always be added.
package phpcodec
