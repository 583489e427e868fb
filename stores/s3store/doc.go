// Package s3store keeps locks in a bucket of Amazon S3, of a service that speaks like it, or of
// Google Cloud Storage. There is no server to run: each name is a small object, and each change of
// it is a conditional write.
//
// Use it for jobs and machines that have nothing in common but a bucket. If locks change hands more
// than a few times a minute, if waiters must take turns, or if you need leases below 10 s, use
// package redisstore or sqlstore instead.
//
// The page docs/stores/s3.md says what the store promises, what it costs, and which rights it needs.
//
// It is a guest: see docs/which-store.md, "Core stores and guests".
package s3store
