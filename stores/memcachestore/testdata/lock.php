<?php
// This script takes and frees locks with the Lock component of Symfony. Each line of its input is a
// command: acquire NAME, release NAME, refresh NAME or held NAME.
require '/usr/share/php/Symfony/Component/Lock/autoload.php';
require '/usr/share/php/Symfony/Component/Cache/autoload.php';

use Symfony\Component\Lock\LockFactory;
use Symfony\Component\Lock\Store\StoreFactory;

$factory = new LockFactory(StoreFactory::createStore($argv[1]));
$locks = [];
while (false !== $line = fgets(STDIN)) {
    [$verb, $name] = explode(' ', rtrim($line, "\n"), 2);
    try {
        switch ($verb) {
            case 'acquire':
                $locks[$name] = $factory->createLock($name, 60, false);
                $yes = $locks[$name]->acquire();
                break;
            case 'release':
                $locks[$name]->release();
                $yes = true;
                break;
            case 'refresh':
                $locks[$name]->refresh();
                $yes = true;
                break;
            case 'held':
                $yes = $locks[$name]->isAcquired();
        }
        echo $yes ? "yes\n" : "no\n";
    } catch (Throwable $e) {
        echo get_class($e), ': ', strtr($e->getMessage(), "\n", ' '), "\n";
    }
}
