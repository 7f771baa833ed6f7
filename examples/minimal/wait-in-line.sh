#!/bin/sh
# Waits in line with curl and orders when it is its turn.
# usage: wait-in-line.sh http://gate:8080 checkout /orders
set -eu
[ $# = 3 ] || { sed -n "2,3s/^# //p" "$0" >&2; exit 2; }
gate=$1 room=$2 order=$3
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

# field NAME prints a field of the last answer, text or number.
field() { sed -n "s/.*\"$1\":\"\{0,1\}\([^,\"}]*\).*/\1/p" "$dir/body"; }

curl -sS -o "$dir/body" -X POST "$gate/_queue/$room/join"
while :; do
  ticket=$(field ticket)
  [ -z "$ticket" ] || echo "$ticket" >"$dir/ticket"
  case $(field status) in
    ready | active) break ;;
    waiting) echo "waiting at place $(field position)" ;;
    *) echo "not in line: $(cat "$dir/body")" >&2; exit 1 ;;
  esac
  sleep "$(awk "BEGIN { print $(field poll_after_ms) / 1000 }")"
  curl -sS -o "$dir/body" -H "X-Queue-Ticket: $(cat "$dir/ticket")" "$gate/_queue/$room/status" || sleep 2
done
curl -sS --fail-with-body -X POST -H 'Accept: application/json' \
  -H "X-Entry-Token: $(field entry_token)" "$gate$order"
echo
