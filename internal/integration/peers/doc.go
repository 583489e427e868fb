// Package peers has tests only: locks in Redis that padlock shares with
// programs of others, as they are: PHP's Symfony Lock, redsync and redislock.
// docs/php.md names them. Locks in files are tried with PHP and flock(1) beside
// filestore itself.
package peers
