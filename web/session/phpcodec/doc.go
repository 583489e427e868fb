// Package phpcodec reads and writes PHP's sessions, so that PHP and Go can serve the same logged-in
// user. It supports the formats php, php_serialize and php_binary of session.serialize_handler.
//
// Use it to read or write data of PHP. To share the sessions of a PHP application, use package
// phpsession instead, which also takes the locks that PHP takes.
//
// A [Document] is a parsed session. Values that the program does not change are written back byte
// for byte and in their place. That includes objects, enums and values of other programs. [Marshal]
// and [Unmarshal] translate single values.
//
// # Hostile input
//
// Parsing takes time and memory in proportion to the length of the input. The input itself says how
// long its strings and arrays are, and these lengths are checked against the data that follow.
// Nesting is limited to [MaxDepth], as in PHP. The length is limited to [MaxSize], and the number
// of keys to [MaxKeys]. Input beyond a limit is refused ([ErrLimit]), and such data are never
// written. No objects are created from data: they stay opaque ([Object]).
//
// # References
//
// A session may contain the same variable or object twice. PHP then writes its value only in the
// first place, and a reference in the second place, such as R:2; or r:2;. The 2 is the number of
// the first place: PHP numbers all values from the beginning of the session.
//
// A value with a reference is kept, but it cannot be decoded. A change that would move the target
// of a reference is refused. The error is [ErrReferences] in both cases. New keys can always be
// added.
package phpcodec
