// Package peers has only tests. They use locks in Redis that padlock shares with other, unchanged
// programs: PHP's Symfony Lock, redsync and redislock. docs/php.md names them. The tests of
// filestore do the same with PHP and flock(1) for locks in files.
package peers
