<?php
// Takes and gives back locks with Symfony's PostgreSqlStore, as lines on the standard input say:
// acquire NAME, wait NAME, read NAME, release NAME. Each is answered with a line: yes, no, or an error.
require '/usr/share/php/Symfony/Component/Lock/autoload.php';

use Symfony\Component\Lock\LockFactory;
use Symfony\Component\Lock\Store\PostgreSqlStore;

$factory = new LockFactory(new PostgreSqlStore($argv[1], ['db_username' => 'postgres']));
$locks = [];
while (($line = fgets(STDIN)) !== false) {
    [$verb, $name] = explode(' ', rtrim($line, "\n"), 2);
    try {
        if ($verb === 'release') {
            $locks[$name]->release();
            unset($locks[$name]);
            echo "yes\n";
            continue;
        }
        $lock = $factory->createLock($name, null, false);
        $ok = $verb === 'read' ? $lock->acquireRead() : $lock->acquire($verb === 'wait');
        if ($ok) {
            $locks[$name] = $lock;
        }
        echo $ok ? "yes\n" : "no\n";
    } catch (\Throwable $e) {
        for (; $e->getPrevious(); $e = $e->getPrevious());
        echo get_class($e), ': ', strtok($e->getMessage(), "\n"), "\n";
    }
}
