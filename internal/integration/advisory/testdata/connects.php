<?php
// Reads a DSN of PDO a line, and answers how PHP tried to connect. Nobody may listen at the
// addresses: then a socket and TCP fail in different ways.
while (($dsn = fgets(STDIN)) !== false) {
    try {
        new PDO(trim($dsn), 'user', 'password');
        echo "connected\n";
    } catch (PDOException $e) {
        echo match (true) {
            str_contains($e->getMessage(), 'No such file') => "socket\n",
            str_contains($e->getMessage(), 'Connection refused') => "tcp\n",
            default => str_replace("\n", ' ', $e->getMessage()) . "\n",
        };
    }
}
