#!/bin/sh
# The job of the README's first screen: a small report, as cron might start it.
#
#     padlock run nightly-report -- ./examples/report.sh [DIRECTORY]
#
# It counts the files below a directory (default: this one) and appends one line
# to $REPORT, or prints it. Without a lock, two runs at the same time would report
# twice. The line contains the fence, so a reader can tell which run is the later.
set -eu

dir=${1:-.}
sleep 1 # a real report takes longer
files=$(find "$dir" -name .git -prune -o -type f -print | wc -l)
size=$(du -sk "$dir" | cut -f1)
line="report by $$ at $(date '+%Y-%m-%d %H:%M:%S'): $((files)) files, $size KiB, fence ${PADLOCK_FENCE:-none}"

if [ -n "${REPORT:-}" ]; then
	echo "$line" >>"$REPORT"
else
	echo "$line"
fi
