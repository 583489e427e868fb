#!/bin/sh
# usage: padlock.sh [-w SECONDS] [-t TTL] [-s] [-n SLOTS] [-a SIGNAL] NAME COMMAND…
#        padlock.sh -q REASON NAME   asks the holder to finish early
# Runs a command under a lock of "padlock serve --api" at $PADLOCK_URL. Its status is that of the
# command, or 75: the lock is held, 79: it was lost, 69: no answer or refused, 64: wrong usage.
set -u
(: 3<&0) 2>/dev/null || exec </dev/null # a closed input would end the script later
exec 3<&0
exists() { kill -0 "$1" || [ -d "/proc/$1" ] || ps -p "$1"; } >/dev/null 2>&1
if [ "${PADLOCK_SCRIPT-}" != "$PPID" ] && command -v setsid >/dev/null; then
  # All the rest runs in a session of its own. Otherwise what kills or stops the group of this script
  # (timeout, Ctrl-Z) would take the renewal, and leave the command. This process passes signals on.
  inner='' told=''; trap 'told=1; [ -z "$inner" ] || kill "$inner" 2>/dev/null' INT TERM HUP
  PADLOCK_SCRIPT=$$ setsid sh "$0" "$@" <&3 3<&- & inner=$!
  [ -z "$told" ] || kill "$inner"
  while told=''; wait "$inner"; status=$?; [ -n "$told" ] && exists "$inner"; do :; done
  exit "$status"
fi
unset PADLOCK_SCRIPT
wait=0 ttl=30 mode="" slot="" open="" asked="" until=0 unknown="" job="" born="" told="" lost="" curl="" looker="" signal=""
me=$(uname -n)/$$; mode=",\"label\":\"$me\"" # as host and pid, others see those of the server
usage() { sed -n '2,5s/^# //p' "$0" >&2; exit 64; }
while getopts w:t:sn:a:q: option; do
  n=${OPTARG-}; case $option:$n in a: | a:*[!A-Z0-9]* | [!aq]:*[!0-9]* | [!aq]:?????????*) usage ;; esac; n=${n#"${n%%[!0]*}"} n=${n:-0} # 010 is ten
  case $option in
    w) wait=$n ;; t) ttl=$n ;; s) mode="$mode,\"shared\":true" ;; n) mode="$mode,\"slots\":$n" ;; a) signal=$OPTARG ;; q) reason=$OPTARG ;; *) usage ;;
  esac
done
shift $((OPTIND - 1)); [ $# -ge $((${reason+-1} + 2)) ] && [ "$ttl" -ge 10 ] || usage
case $signal:$mode in [A-Z0-9]*:*slots*) usage ;; esac # a slot cannot be asked
quoted() { printf %s "$1" | sed 's/[\\"]/\\&/g'; }
name=$(quoted "$1") urls=${PADLOCK_URL:-http://127.0.0.1:7925}; shift
dir=$(mktemp -d) && answer=$dir/answer || exit 69
now() { if read -r up _ </proc/uptime; then echo "${up%.*}"; else date +%s; fi 2>/dev/null; }
token() { token=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n'); }
turn() { first=$1; shift; urls="$*${*:+ }$first"; } # the next server comes first
ask() { # ask PATH FIELDS SECONDS sets code, which is 000 if nothing is known
  # All users see the arguments of curl, so the token is in its input. A signal ends only the wait.
  printf %s "{\"name\":\"$name\"${token:+,\"token\":\"$token\"}$2}" |
    curl -sS --noproxy '*' -m "$3" ${PADLOCK_HEADERS:+-H "@$PADLOCK_HEADERS"} -H 'Content-Type: application/json' \
      -o "$answer" -w '%{http_code}' --max-filesize 1048576 -d @- "${urls%% *}/v1/$1" >"$answer.code" 2>"$dir/error" &
  curl=$!; wait "$curl" && code=$(cat "$answer.code") || code=000; curl=''
  case $code in 202) case $(field retry_ms) in [0-9]*) ;; *) nothing ;; esac ;; # otherwise a proxy's
    200 | [34]?? | 501) ;; 503) turn $urls ;; *) nothing ;; esac
}
nothing() { code=000 lost=1; turn $urls; }
field() { sed -n "s/.*\"$1\":\"\{0,1\}\([0-9a-z]*\).*/\1/p" "$answer"; }
valid() { ms=$(field valid_ms) # whole seconds, never too late
  case $ms in '' | *[!0-9]*) nothing ;; *) until=$((sent + ms / 1000 - 1)); echo "$until" >>"$dir/until" ;; esac; }
give_up() { for pause in ${open:+1 0}; do # twice, because a request without an answer may come late
    for at in $asked; do (urls=$at answer=$dir/given; ask release '' 5) & done; wait; sleep "$pause"
  done; open='' asked=''; }
release() { for pause in 1 2 0; do
    ask release "$slot" 5; case $code:$(field outcome) in 200:) nothing ;; 200:* | [34]??:*) break ;; esac
    [ "$code" = 503 ] || unknown=1; sleep "$pause"
  done; }
start() { # when a process began; nothing if it has ended, even if nobody has reaped it
  if [ -r /proc/self/stat ]; then
    stat=$(cat "/proc/$1/stat") && set -- ${stat##*) } && case $1${18} in [ZX]1) ;; *) echo "${20}" ;; esac
  else case $(ps -o stat= -p "$1") in '' | Z*) ;; *) ps -o lstart= -p "$1" ;; esac; fi; }
alive() { # whether this script or its command works, and not another process that has its number
  at=$(start $$); [ "$at" = "$main" ] || mkdir "$dir/begun" # a command that has not begun does not begin any more
  born=${born:-$(start "$(cat "$dir/job")")}
  [ "$at" = "$main" ] || { [ -n "$born" ] && [ "$(start "$(cat "$dir/job")")" = "$born" ]; } || { rm -rf "$dir"; false; }; }
stop() { kill -s "$1" -- "-$job" || kill -s "$1" "$job"; } 2>/dev/null
fail() { { cat "$answer" "$dir/error" 2>/dev/null; } >&2; give_up; rm -rf "$dir"; exit "$1"; }
trap 'open=1; [ -z "$curl" ] || kill "$curl" 2>/dev/null; fail 69' INT TERM HUP
[ -z "${reason+q}" ] || { # a question has no token
  token='' reason="$(quoted "$reason") $me"; ask ask ",\"reason\":\"${reason# }\"" 20
  case $code in 200 | 410) cat "$answer"; rm -rf "$dir"; exit 0 ;; *) fail 69 ;; esac; }
token; end=$(($(now) + wait))
while sent=$(now); left=$((end - sent)); do
  left=$((left > 25 ? 25 : left > 0 ? left : 0)) at=${urls%% *}
  case " $asked " in *" $at "*) ;; *) asked="$asked $at" ;; esac
  ask acquire ",\"ttl_ms\":$((ttl * 1000)),\"wait_ms\":$((left * 1000))$mode" $((left + 5))
  [ "$code" != 200 ] || { valid; [ "$(field token)" = "$token" ] && [ "$until" -gt "$(now)" ]; } || nothing
  case $code in
    200) break ;;
    202) open=1; [ "$(now)" -lt "$end" ] || fail 75 ;;
    409 | 410) [ "$(now)" -lt "$end" ] || fail $((code == 409 ? 75 : 69)); give_up; token; lost=''; sleep 1 ;;
    000 | 429 | 503) [ "$code" != 000 ] || open=1; [ "$(now)" -lt $((end + 10)) ] || fail 69; sleep 1 ;; # the same token
    *) fail 69 ;;
  esac
done
spread=''; case $lost:$asked in 1:*' '*' '*) spread=1 ;; esac # another server may keep a place
PADLOCK_FENCE=$(field fence); export PADLOCK_FENCE
[ -z "$(field slot)" ] || slot=",\"slot\":$(field slot)"
trap 'told=1; [ -z "$job" ] || stop TERM' INT TERM HUP # a job in the background ignores INT
main=$(start $$)
( trap '' INT TERM HUP; answer=$dir/renewal next=$(($(now) + ttl / 3)) # renews
  while sent=$(now); left=$((until - sent)); [ "$left" -gt 0 ]; do
    [ "$sent" -ge "$next" ] || { sleep 1; alive || exit; continue; } # a sleep counts no suspension
    next=$((sent + ttl / 10))
    ask extend "$slot,\"ttl_ms\":$((ttl * 1000))" $((ttl / 6 < left ? ttl / 6 : left))
    case $code in 200) valid; [ "$code" != 200 ] || next=$((sent + ttl / 3)) ;; 410) until=0; echo 0 >>"$dir/until" ;; esac
  done ) >/dev/null 2>&1 3<&- & renewal=$!
( trap '' INT TERM HUP # ends the command when the lease is over, whatever has become of the renewal
  while [ "$(now)" -lt "$(tail -n 1 "$dir/until")" ]; do sleep 1; alive || exit; done
  : >"$dir/lost"; mkdir "$dir/begun"; job=$(cat "$dir/job") || exit
  stop TERM; for second in 1 2 3 4 5; do stop 0 || break; sleep 1; done; stop KILL ) >/dev/null 2>&1 3<&- & ender=$!
look() { # sends the signal once, when the holder is asked to finish early
  trap '' INT TERM HUP; answer=$dir/look token=''
  while sleep 1 && alive; do
    [ -n "$signal" ] || continue
    ask status '' 5; at=$(sed -n 's/.*"asked":{.*"fence":\([0-9]*\)}.*/\1/p' "$answer")
    case $code in 200) [ "${at:-0}" -lt "$PADLOCK_FENCE" ] || { kill -s "$signal" "$(cat "$dir/job")"; signal=''; } ;;
      [34]?? | 501) cat "$answer" >&4; signal='' ;; esac
  done; }
[ -z "$signal" ] || { look 4>&2 >/dev/null 2>&1 3<&- & looker=$!; }
# They go on if this script dies. The command comes last, in a group of its own: a loss ends all of it.
$(command -v setsid) sh -c 'echo $$ >"$0/job"; mkdir "$0/begun" 2>/dev/null && exec "$@"' "$dir" "$@" <&3 3<&- & job=$!
[ -z "$told" ] || stop TERM
while told=''; wait "$job"; status=$?; [ -n "$told" ] && exists "$job"; do :; done # a signal ends only the wait
while [ -e "$dir/lost" ] && exists "$ender"; do wait "$ender"; done # it ends the children
{ kill -s KILL "$renewal" "$ender" $looker && wait "$renewal" "$ender" $looker; } 2>/dev/null # otherwise bash tells of them
until=$(tail -n 1 "$dir/until"); [ "$(now)" -lt "$until" ] || : >"$dir/lost"
release # one that came in time has protected the work, even if its lease ended before the answer
case $code:$(field outcome):$unknown:$(($(now) >= until)) in 200:released:* | 200:gone:1:* | 200:expired:*:1 | [!2]*) ;; *) : >"$dir/lost" ;; esac
[ -z "$spread" ] || { open=1; give_up; }
[ ! -e "$dir/lost" ] || status=79; rm -rf "$dir"; exit "$status"
