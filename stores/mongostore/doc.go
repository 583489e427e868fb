// Package mongostore keeps locks in a collection of MongoDB. It is experimental: its tests have not
// yet run against a MongoDB server. docs/stores/mongodb.md says what has been tried, and lists what
// the store promises.
//
// PHP's Symfony (MongoDbStore) can share the locks, with [SymfonyLayout].
package mongostore
