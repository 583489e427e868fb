<?php
$token = bin2hex(random_bytes(16));
function ask(string $path, array $more = []): array {
    $body = json_encode(['name' => 'invoice:42', 'token' => $GLOBALS['token']] + $more);
    $http = ['method' => 'POST', 'header' => 'Content-Type: application/json', 'content' => $body,
        'timeout' => 40, 'ignore_errors' => true];
    for ($try = 0, $code = 0; $try < 3 && in_array($code, [0, 502, 503, 504]); $try++) {
        $sent = hrtime(true); // valid_ms counts from here
        $text = @file_get_contents("http://127.0.0.1:7925/v1/$path", false, stream_context_create(['http' => $http]));
        $code = $text === false ? 0 : (int) explode(' ', $http_response_header[0])[1];
    }
    return [$code, json_decode((string) $text, true) ?? [], $sent];
}
[$code, $lock, $sent] = ask('acquire', ['ttl_ms' => 30000, 'wait_ms' => 20000]);
$left = fn() => ($lock['valid_ms'] ?? 0) - (hrtime(true) - $sent) / 1e6; // milliseconds
echo match (true) {
    $code === 200 && $left() > 0 => "work with fence {$lock['fence']}\n",
    $code === 202, $code === 409 => "somebody else has it\n",
    default => "no lock: $code " . ($lock['detail'] ?? '') . "\n",
};
ask('release');
