<?php
// The tests run this file with real PHP, with -d session.serialize_handler=H:
//   php sessions.php fixtures      prints sessions as PHP encodes them
//   php sessions.php roundtrip     reads sessions (base64, one in a line), decodes and encodes them
//   php sessions.php serialize     reads JSON, one value in a line, and serialises it
// Every answer is one line of JSON. The caller may also set -d serialize_precision.
error_reporting(E_ALL & ~E_DEPRECATED);
ini_set('display_errors', 'stderr');
session_start();

class Point { public $x = 1; protected $y = 2.5; private $z = [true, null]; public ?Point $next = null; }
class Custom { public $d; function __serialize(): array { return ['d' => $this->d, 7 => 'x']; } function __unserialize(array $a): void { $this->d = $a['d']; } }
class Old implements Serializable { public $d = 'a"}b'; function serialize() { return "raw:{$this->d}"; } function unserialize($s) { $this->d = substr($s, 4); } }
enum Suit: string { case Hearts = 'h'; case Spades = 's'; }

function cases(): array {
	$linked = new Point; $linked->next = new Point; $linked->next->next = $linked;
	$deep = 1; for ($i = 0; $i < 100; $i++) $deep = [$deep];
	$c = new Custom; $c->d = [1, 2];
	$all = [
		'empty' => [],
		'scalars' => ['i' => 42, 'neg' => -7, 'max' => PHP_INT_MAX, 'min' => PHP_INT_MIN, 't' => true, 'f' => false, 'n' => null],
		'strings' => ['s' => 'h"é;x', 'empty' => '', 'nul' => "a\0b", 'bar' => 'a|b', 'brace' => '}{', 'long' => str_repeat('é', 300)],
		'floats' => ['a' => 0.1, 'b' => 1e25, 'c' => 1e16, 'd' => 1e17, 'e' => -0.0, 'g' => 1/3, 'h' => 5e-324, 'j' => INF, 'k' => -INF, 'l' => NAN, 'm' => 1.5e-5, 'o' => 0.0001, 'p' => 3.0],
		'arrays' => ['list' => [1, 'two', 3.5], 'map' => ['k' => 'v', 0 => 3, '08' => 4, -5 => 6, '' => 7], 'nested' => ['a' => ['b' => ['c' => []]]], 'deep' => $deep],
		'objects' => ['p' => new Point, 'std' => (object)['a' => 1, 'b' => [2]], 'custom' => $c, 'date' => new DateTime('2026-11-20 12:00:00', new DateTimeZone('UTC')), 'list' => new ArrayObject([1, 2])],
		'enums' => ['suit' => Suit::Hearts, 'in' => [Suit::Spades, Suit::Spades]],
		'twice' => ['before' => 1, 'linked' => $linked, 'again' => $linked, 'after' => [1, 2]],
		'order' => ['z' => 1, 'a' => 2, 'm' => 3],
		'keys' => ['with space' => 1, 'é' => 2, '!bang' => 3, 'a.b' => 4],
		'old' => ['x' => 1, 'old' => new Old, 'y' => 2],
	];
	$alias = ['a' => 'first', 'x' => 0, 'list' => [1, 2], 'z' => 'last'];
	$alias['ref'] = &$alias['x']; $alias['inner'] = [&$alias['list'], 5];
	$all['references'] = $alias;
	$o1 = new Point; $o2 = new Custom; $o2->d = 1;
	$chain = ['x' => 0, 'rx' => null, 'o1' => $o1, 'o1b' => $o1, 'p' => 5, 'rx2' => null, 'o2' => $o2, 'q' => 6, 'o2b' => [$o2, $o1]];
	$chain['rx'] = &$chain['x']; $chain['rx2'] = &$chain['x'];
	$all['chain'] = $chain;
	$old = new Old;
	$all['oldref'] = ['x' => 1, 'o1' => $o1, 'old' => $old, 'y' => 2, 'o2' => $o2, 'z' => 3, 'o2b' => $o2];
	$all['oldlast'] = ['x' => 1, 'y' => [1], 'old' => $old, 'z' => 3];
	return $all;
}

function line($x) { echo json_encode($x, JSON_THROW_ON_ERROR | JSON_PRESERVE_ZERO_FRACTION), "\n"; }

switch ($argv[1]) {
case 'fixtures':
	foreach (cases() as $name => $case) {
		$_SESSION = $case;
		$each = [];
		foreach ($_SESSION as $k => $v) $each[] = [(string)$k, base64_encode(serialize($v))];
		line(['name' => $name, 'handler' => ini_get('session.serialize_handler'), 'data' => base64_encode(session_encode()), 'values' => in_array($name, ['references', 'twice', 'enums', 'chain', 'oldref']) ? null : $each]);
	}
	break;
case 'roundtrip':
	while (($in = fgets(STDIN)) !== false) {
		$_SESSION = [];
		$ok = session_decode(base64_decode(trim($in)));
		$keys = array_map('strval', array_keys($_SESSION));
		$values = array_map(fn($v) => base64_encode(serialize($v)), array_values($_SESSION));
		line(['ok' => $ok, 'keys' => $keys, 'values' => $values, 'data' => base64_encode((string)session_encode())]);
	}
	break;
case 'serialize':
	while (($in = fgets(STDIN)) !== false) {
		line(base64_encode(serialize(json_decode($in, true, 512, JSON_THROW_ON_ERROR))));
	}
	break;
}
$_SESSION = [];
session_destroy();
