#!/bin/sh
# usage: padlock.sh [-w SECONDS] [-t TTL] [-s] [-n SLOTS] NAME COMMAND…
# Runs a command under a lock of "padlock serve --api" at $PADLOCK_URL. Its status is that of the
# command, or 75: the lock is held, 74: it was lost, 69: no answer or refused, 64: wrong usage.
set -u
wait=0 ttl=30 mode='' slot=''
while getopts w:t:sn: option; do
  case $option in
    w) wait=$OPTARG ;; t) ttl=$OPTARG ;; s) mode=',"shared":true' ;; n) mode=",\"slots\":$OPTARG" ;; *) exit 64 ;;
  esac
done
shift $((OPTIND - 1))
[ $# -ge 2 ] && [ "$ttl" -ge 10 ] && [ "$wait" -ge 0 ] || { sed -n '2,4s/^# //p' "$0" >&2; exit 64; }
name=$(printf %s "$1" | sed 's/[\\"]/\\&/g') urls=${PADLOCK_URL:-http://127.0.0.1:7925}; shift
dir=$(mktemp -d) && answer=$dir/answer || exit 69
now() { if read -r up _ </proc/uptime; then echo "${up%.*}"; else date +%s; fi 2>/dev/null; }
token() { token=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n'); }
turn() { first=$1; shift; urls="$* $first"; } # the next server comes first
ask() { # ask PATH FIELDS SECONDS sets code, which is 000 without an answer
  code=$(curl -sS -m "$3" ${PADLOCK_HEADERS:+-H "@$PADLOCK_HEADERS"} -H 'Content-Type: application/json' \
    -o "$answer" -w '%{http_code}' --max-filesize 1048576 \
    -d "{\"name\":\"$name\",\"token\":\"$token\"$2}" "${urls%% *}/v1/$1" 2>"$dir/error") || code=000
  case $code in 000 | 50[0234]) turn $urls ;; esac
}
field() { sed -n "s/.*\"$1\":\"\{0,1\}\([0-9a-z]*\).*/\1/p" "$answer"; }
valid() { until=$((sent + $(field valid_ms) / 1000 - 1)); } # whole seconds, never too late
release() { for pause in 1 2 0; do ask release "$slot" 5; [ "$code" = 200 ] && break; sleep $pause; done; }
stop() { kill -s "$1" -- "-$job" || kill -s "$1" "$job"; } 2>/dev/null
fail() { { cat "$answer" "$dir/error" 2>/dev/null; } >&2; [ "$2" = free ] || release; rm -rf "$dir"; exit "$1"; }
trap 'fail 69 unknown' INT TERM HUP
token; end=$(($(now) + wait))
while sent=$(now); left=$((end - sent)); do
  left=$((left > 25 ? 25 : left > 0 ? left : 0))
  ask acquire ",\"ttl_ms\":$((ttl * 1000)),\"wait_ms\":$((left * 1000))$mode" $((left + 5))
  case $code in
    200) valid; [ "$(field token)" = "$token" ] && [ "$until" -gt "$(now)" ] && break; fail 69 unknown ;;
    202) [ "$(now)" -lt "$end" ] || fail 75 unknown ;;
    409 | 410) [ "$(now)" -lt "$end" ] || fail 75 free; token; sleep 1 ;;
    000 | 429 | 50[0234]) [ "$(now)" -lt $((end + 10)) ] || fail 69 unknown; sleep 1 ;; # the same token
    *) fail 69 free ;;
  esac
done
PADLOCK_FENCE=$(field fence); export PADLOCK_FENCE
[ -z "$(field slot)" ] || slot=",\"slot\":$(field slot)"
exec 3<&0; $(command -v setsid) "$@" <&3 3<&- & job=$! # in a group of its own, so that a loss ends all of it
trap 'stop TERM' INT TERM HUP # a job in the background ignores INT
( trap '' INT TERM HUP; answer=$dir/renewal pause=$((ttl / 3)) # goes on until the job ends
  while left=$((until - $(now))); [ "$left" -gt 0 ]; do
    sleep $((pause < left ? pause : left)); kill -0 "$job" || exit
    sent=$(now); ask extend "$slot,\"ttl_ms\":$((ttl * 1000))" $((ttl / 6))
    case $code in 200) valid; pause=$((ttl / 3)) ;; 410) until=0 ;; *) pause=$((ttl / 10)) ;; esac
  done
  : >"$dir/lost"; stop TERM; sleep 5; stop KILL ) >/dev/null 2>&1 3<&- & renewal=$!
while wait "$job"; status=$?; kill -0 "$job" 2>/dev/null; do :; done # a signal ends only the wait
kill -s KILL "$renewal"
release # a repeat after silence may find that the lock is "gone"
case $code:$(field outcome):$pause in 200:released:* | 200:gone:[02] | [!2]*) ;; *) : >"$dir/lost" ;; esac
[ ! -e "$dir/lost" ] || status=74
rm -rf "$dir"; exit $status
