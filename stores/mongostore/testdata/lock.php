<?php
// Takes and frees locks as PHP's Symfony does, with the DSN of the first argument. The second one
// is the directory of the PHP library mongodb/mongodb. One command a line: acquire NAME, release
// NAME, refresh NAME, held NAME.
require '/usr/share/php/Symfony/Component/Lock/autoload.php';

$library = $argv[2] . '/src/';
spl_autoload_register(function ($class) use ($library) {
    $file = $library . strtr(substr($class, strlen('MongoDB\\')), '\\', '/') . '.php';
    if (str_starts_with($class, 'MongoDB\\') && is_file($file)) {
        require $file;
    }
});
require $library . 'functions.php';

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
