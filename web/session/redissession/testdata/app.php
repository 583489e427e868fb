<?php
// The PHP half of an application. The other half is in Go.

class User
{
    public $id = 42;
    protected $name = 'Zoë "the|one"; {x}';
    private $tags = ['a', 'k' => [1.5, true, null]];

    public function name() { return $this->name . ' ' . json_encode($this->tags); }
}

// work runs for a time in Go's notation, such as 25ms or 1s.
function work(string $for): void
{
    $us = (float) $for * (str_ends_with($for, 'ms') ? 1000 : 1000000);
    if ($us > 0) {
        usleep((int) $us);
    }
}

// until tells the test that the request is at this point, and waits for the test.
function until(string $file): void
{
    touch("$file.in");
    for ($i = 0; $i < 30000 && !file_exists($file); $i++) {
        usleep(1000);
        clearstatcache();
    }
}

function crash(): void
{
    posix_kill(getmypid(), SIGKILL);
}

function answer(string $path): string
{
    $key = $_GET['key'] ?? '';
    switch ($path) {
        case '/login':
            $_SESSION['user'] = new User();
            $_SESSION['pi'] = 0.1 + 0.2;
            $_SESSION['list'] = ['x' => 1, 5 => 'é', 'deep' => [[], -7, false]];
            $_SESSION['n'] = 5;
            return '';
        case '/set':
            work($_GET['work']);
            $_SESSION[$key] = 1;
            return '';
        case '/add':
            $n = $_SESSION[$key] ?? 0;
            work($_GET['work']);
            $_SESSION[$key] = $n + 1;
            return '';
        case '/user':
            return isset($_SESSION['user']) ? $_SESSION['user']->name() : 'nobody';
        case '/json':
            return json_encode($_SESSION[$key] ?? null);
        case '/regenerate':
            until($_GET['until']);
            session_regenerate_id($_GET['delete'] === '1');
            return '';
        case '/held':
            until($_GET['until']);
            $_SESSION[$key] = 1;
            return '';
        case '/early':
            $_SESSION[$key] = 1;
            session_write_close();
            until($_GET['until']);
            return '';
        case '/readonly':
            until($_GET['until']);
            return json_encode($_SESSION[$key] ?? null);
        case '/logout':
            session_destroy();
            return '';
    }
    http_response_code(404);
    return 'no such page';
}

if (PHP_SAPI === 'cli') {
    session_id($argv[1]);
    session_start();
    crash();
}
$path = parse_url($_SERVER['REQUEST_URI'], PHP_URL_PATH);
if ($path === '/ready') {
    echo 'ready';
} elseif (!@session_start(['read_and_close' => $path === '/readonly'])) {
    http_response_code(503);
} else {
    echo answer($path);
}
