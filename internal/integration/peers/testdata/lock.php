<?php
// Runs Symfony's locks for the Go tests in the parent directory. Each input line is a request as a
// JSON object, and each output line is a reply as a JSON object.
//
//   php lock.php HOST PORT PREFIX   in Redis
//   php lock.php DSN                as Symfony makes the store of that DSN
//   php lock.php DSN TABLE          in a table: with Doctrine if the DSN has //, else with PDO

require '/usr/share/php/Symfony/Component/Lock/autoload.php';
@include '/usr/share/php/Symfony/Component/Cache/autoload.php'; // for DSNs
@include '/usr/share/php/Doctrine/DBAL/autoload.php'; // for DSNs with //

use Symfony\Component\Lock\Key;
use Symfony\Component\Lock\Lock;
use Symfony\Component\Lock\Store\DoctrineDbalStore;
use Symfony\Component\Lock\Store\PdoStore;
use Symfony\Component\Lock\Store\RedisStore;
use Symfony\Component\Lock\Store\StoreFactory;

if (2 === count($argv)) {
    $store = StoreFactory::createStore($argv[1]);
} elseif (3 === count($argv)) {
    [, $dsn, $table] = $argv;
    $class = str_contains($dsn, '//') ? DoctrineDbalStore::class : PdoStore::class;
    $user = str_starts_with($dsn, 'pgsql') ? 'postgres' : 'root'; // of PDO
    $store = new $class($dsn, ['db_table' => $table, 'db_username' => $user], 0);
} else {
    [, $host, $port, $prefix] = $argv;
    $redis = new Redis();
    $redis->connect($host, (int) $port);
    $redis->setOption(Redis::OPT_PREFIX, $prefix);
    $store = new RedisStore($redis);
}

// Makes one lock, as Symfony's LockFactory does. The token may be given.
function create(object $in, $store): array
{
    $key = new Key(base64_decode($in->name));
    if ('' !== $in->token) {
        $key->setState(get_class($store), $in->token);
    }

    return [$key, new Lock($key, $store, $in->ttl, false)];
}

// Takes the name again and again, like a worker that waits for its turn.
function work(object $in, Lock $lock): int
{
    for ($i = 0; $i < $in->times; ++$i) {
        $lock->acquire(true);
        echo json_encode(['ok' => true, 'did' => 'in', 'token' => '']), "\n";
        usleep(2000);
        $lock->release();
        usleep(30000); // the worker does something without the lock
    }

    return $i;
}

$locks = [];
while (false !== $line = fgets(STDIN)) {
    $in = json_decode($line);
    [$key, $lock] = $locks[$in->id] ??= create($in, $store);
    $out = ['ok' => true, 'did' => $in->do];
    try {
        $said = match ($in->do) {
            'acquire' => $lock->acquire(),
            'read' => $lock->acquireRead(),
            'wait' => $lock->acquire(true),
            'refresh' => $lock->refresh($in->ttl),
            'release' => $lock->release(),
            'held' => $lock->isAcquired(),
            'save' => $store->save($key), // the first half of acquire
            'create' => $store->createTable(),
            'work' => work($in, $lock),
        };
        $out['ok'] = $said ?? true;
    } catch (Throwable $e) {
        $out['ok'] = false;
        $out['error'] = get_class($e);
    }
    $out['ok'] = (bool) $out['ok'];
    $token = $key->hasState(get_class($store)) ? $key->getState(get_class($store)) : '';
    $out['token'] = is_string($token) ? $token : ''; // FlockStore keeps a file
    echo json_encode($out), "\n";
}
