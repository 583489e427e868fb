<?php
// Takes and releases named locks with the statements of MysqlStore in Symfony 8.2. Debian does not
// have that version. The lines on the standard input are acquire NAME, wait NAME or release NAME.
// The reply to each is a line: yes, no, or an error. This program waits with a positive time-out.
// Symfony uses −1 instead, for which MariaDB returns NULL.
$pdo = new PDO($argv[1], 'root', null, [PDO::ATTR_ERRMODE => PDO::ERRMODE_EXCEPTION]);
$take = $pdo->prepare('SELECT IF(IS_USED_LOCK(:name1) = CONNECTION_ID(), -1, GET_LOCK(:name2, :seconds))');
$give = $pdo->prepare('DO RELEASE_LOCK(:name)');
while (($line = fgets(STDIN)) !== false) {
    [$verb, $name] = explode(' ', rtrim($line, "\n"), 2);
    $key = hash('sha256', $name);
    try {
        if ($verb === 'release') {
            $give->execute(['name' => $key]);
            echo "yes\n";
            continue;
        }
        $take->execute(['name1' => $key, 'name2' => $key, 'seconds' => $verb === 'wait' ? 60 : 0]);
        $got = $take->fetchColumn();
        $take->closeCursor();
        echo (int) $got === 1 ? "yes\n" : ($got === null ? "null\n" : "no\n");
    } catch (\Throwable $e) {
        echo get_class($e), ': ', strtok($e->getMessage(), "\n"), "\n";
    }
}
