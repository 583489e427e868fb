// Package sessionstore is the side of stores of package session: what a store of sessions has to
// do, the store in memory, and what stores have in common. It is for authors of stores of sessions.
// A program that uses sessions needs only [NewMemory] of it, or a store of another package.
//
// A store of your own implements [Store], or [BlobStore] if it keeps one value for each key:
// [FromBlobs] makes a Store of it. Package sessiontest checks both.
package sessionstore
