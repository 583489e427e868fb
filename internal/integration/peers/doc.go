// Package peers has only tests. They use locks in Redis that padlock shares with other programs:
// with PHP's Symfony Lock, redsync and redislock. These programs run as they are published, without
// any change. docs/php.md names them. The tests of filestore do the same for locks in files, with
// PHP and flock(1).
package peers
