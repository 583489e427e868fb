// Package phpcodec reads and writes PHP's sessions, so that PHP and Go can serve the same logged-in
// user. It knows the formats php, php_serialize and php_binary of session.serialize_handler.
//
// A [Document] is a parsed session. Values that the program does not change are written back byte
// for byte and in their place, including objects, enums and values of other programs. [Marshal] and
// [Unmarshal] translate single values.
//
// # Hostile input
//
// Parsing takes time and memory in proportion to the length of the input: a length that the input
// declares is not trusted before the data are there. Nesting is limited to [MaxDepth], as in PHP,
// the length to [MaxSize], and the number of keys to [MaxKeys]. Input beyond a limit is refused
// ([ErrLimit]), and such data are never written. No object is made out of data: objects stay opaque
// ([Object]).
//
// # References
//
// If a variable occurs twice, PHP writes a number for the second one (R:2; or r:2;), counted over
// the whole session. Values with such numbers in them are kept and not decoded, and a change that
// would move the target of a number is refused, both with [ErrReferences]. New keys can always be
// added.
package phpcodec
