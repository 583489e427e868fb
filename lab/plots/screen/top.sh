#!/bin/bash
# Makes docs/images/top.svg, which shows a real padlock top with the locks of several machines.
# It needs redis-server, tmux, and root for the names of the machines. It takes about a minute.
#
#   go build -o /tmp/padlock ./cmd/padlock && lab/plots/screen/top.sh /tmp/padlock
set -eu
stopped=
padlock=$(realpath "$1")
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
cd "$work"
redis-server --port 0 --unixsocket "$work/redis" --port 7391 --bind 127.0.0.1 --save '' --daemonize yes \
	--pidfile "$work/redis.pid" --logfile "$work/redis.log" >redis.out
# restart-guard=off, because another server may have used the port before.
export PADLOCK_STORE='redis://127.0.0.1:7391?restart-guard=off'
until redis-cli -p 7391 ping >ping.out 2>&1; do sleep 0.1; done
trap 'kill -KILL "$stopped"; kill $(jobs -p) 2>/dev/null; tmux -S "$work/tmux" kill-server; kill "$(cat redis.pid)"' EXIT

# on HOST ARGUMENT… runs padlock on a machine of that name.
on() { unshare --uts bash -c 'hostname "$1"; shift; exec "$@"' - "$1" "$padlock" "${@:2}"; }

on web-3 run --label report.sh nightly-report -- sleep 300 &
on build-1 run --label 'release 41' deploy/web -- sleep 300 &
for host in gpu-1 gpu-2 gpu-3; do on $host run --label encode.sh --slots 3 encoder -- sleep 300 & done
sleep 1
for host in build-2 build-3; do on $host run --label 'release 42' deploy/web -- true & done
for host in gpu-4 gpu-5; do on $host run --slots 3 encoder -- true & done
(
	for _ in 1 2 3 4 5 6; do on web-1 run catalogue/rebuild -- sleep 1.5; done
	on web-2 run --label rebuild.php catalogue/rebuild -- sleep 300
) &
(
	for _ in $(seq 20); do on web-1 run invoice/2026-11 -- sleep 2.5; done
) &

tmux -S tmux -f /dev/null new-session -d -x 100 -y 16 "$padlock top 2>top.err"
sleep 14 # top has seen a renewal
stopped=$(pgrep -f 'run --label report.sh nightly-report' | head -1)
kill -STOP "$stopped"
for _ in $(seq 60); do
	tmux -S tmux capture-pane -e -p >screen.txt
	grep -q 'not renewed' screen.txt && grep -q long screen.txt && break
	sleep 0.5
done
(cd "$here" && go run . <"$work/screen.txt" >../../../docs/images/top.svg)
cat screen.txt
