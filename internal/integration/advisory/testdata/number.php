<?php
// Takes and gives back advisory locks by their numbers, as lines on the standard input say: acquire
// NUMBER, read NUMBER, release NUMBER, unread NUMBER. Each is answered with yes or no.
$db = new PDO($argv[1], 'postgres');
$functions = [
    'acquire' => 'pg_try_advisory_lock', 'release' => 'pg_advisory_unlock',
    'read' => 'pg_try_advisory_lock_shared', 'unread' => 'pg_advisory_unlock_shared',
];
while (($line = fgets(STDIN)) !== false) {
    [$verb, $number] = explode(' ', rtrim($line, "\n"), 2);
    $ok = $db->query("SELECT {$functions[$verb]}($number)")->fetchColumn();
    echo $ok ? "yes\n" : "no\n";
}
