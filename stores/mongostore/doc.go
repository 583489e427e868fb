// Package mongostore keeps locks in a collection of MongoDB. It is experimental: its tests have not
// yet run against a MongoDB server. docs/stores/mongodb.md says what has been tried, and lists what
// the store promises.
//
// Use it if you have MongoDB and nothing that padlock knows better. If you have Redis, etcd or an
// SQL database as well, use a store on that instead.
//
// PHP's Symfony (MongoDbStore) can share the locks, with [SymfonyLayout].
//
// It is a guest: see docs/which-store.md, "Core stores and guests".
package mongostore
