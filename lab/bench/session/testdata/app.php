<?php
// The paths of package load, served by PHP with its own sessions.

// work takes as long as Go's notation says: 25ms, 1s.
function work(): void
{
    $for = $_GET['work'] ?? '0s';
    usleep((int) ((float) $for * (str_ends_with($for, 'ms') ? 1000 : 1000000)));
}

function answer(string $path): string
{
    $key = $_GET['key'] ?? '';
    switch ($path) {
        case '/start':
            $_SESSION['started'] = 1;
            return '';
        case '/set':
            work();
            $_SESSION[$key] = 1;
            return '';
        case '/add':
            $n = $_SESSION[$key] ?? 0;
            work();
            $_SESSION[$key] = $n + 1;
            return '';
        case '/read':
            work();
            return '';
        case '/keys':
            return implode("\n", array_keys($_SESSION));
        case '/value':
            return (string) ($_SESSION[$key] ?? 0);
        case '/logout':
            session_destroy();
            return '';
    }
    http_response_code(404);
    return 'no such page';
}

$path = parse_url($_SERVER['REQUEST_URI'], PHP_URL_PATH);
if ($path === '/ready') {
    http_response_code(extension_loaded('redis') ? 200 : 500);
} elseif (!@session_start()) {
    http_response_code(503);
} else {
    echo answer($path), "\n";
}
