#!/usr/bin/env bash
# One night: yesterday's flow logs become a workload and an estimate; gates are checked; old scenarios go.
# All of it is safe to repeat: what is done is found done. The exit code is that of the estimate: 0, or 3 if a gate failed.
#
#   TOPOLOGY=cables.csv HOSTS=hosts.csv LABELS=labels.csv LAKE=/lake LOGS=/logs pipeline/nightly/nightly.sh [2026-01-31]
set -euo pipefail

: "${LAKE:?directory of the lake}" "${TOPOLOGY:?topology}" "${LOGS:?directory of the logs, with a folder for each day}"
day=${1:-$(date -u -d yesterday +%F)}
parsimon=${PARSIMON:-parsimon}
metrics=${METRICS:-$LAKE}                       # textfile directory of node_exporter
answers=${ANSWERS:-$LAKE}                       # ingest-DAY.json, run-DAY.json and removed-DAY.json
mkdir -p "$LAKE" "$metrics" "$answers"
common=(--lake "$LAKE" --log-format json --quiet --wait "${WAIT:-30m}")

options=()
[ -z "${HOSTS:-}" ] || options+=(--hosts "$HOSTS")
[ -z "${LABELS:-}" ] || options+=(--labels "$LABELS")

format=(--format "${FORMAT:-vpc},json")
[ -z "${MAPPING:-}" ] || format=(--format json --mapping "$MAPPING") # a format of your own, see parsimon help ingest

"$parsimon" ingest "$LOGS/$day" "${format[@]}" --topology "$TOPOLOGY" --workload "day-$day" "${options[@]}" \
  --max-rejects "${MAX_REJECTS:-1%}" --metrics-file "$metrics/parsimon-ingest.prom" "${common[@]}" >"$answers/ingest-$day.json"

# A day that does not fit a simulation: FROM and TO cut out a part, such as T09:00:00Z to T09:10:00Z.
part=()
[ -z "${FROM:-}" ] || part+=(--from "$day$FROM" --to "$day${TO:?end of the part}")
read -ra more <<<"${RUN_FLAGS:-}" # such as --within 2% --by service
gates=()
while IFS= read -r gate; do [ -z "$gate" ] || gates+=(--fail-if "$gate"); done <<<"${GATES:-}"

code=0
"$parsimon" run --workload "day-$day" --name "$day" "${part[@]}" "${gates[@]}" "${more[@]}" --format json \
  --metrics-file "$metrics/parsimon-run.prom" "${common[@]}" >"$answers/run-$day.json" || code=$?
[ "$code" = 0 ] || [ "$code" = 3 ] || exit "$code"

"$parsimon" rm --older-than "${KEEP:-30d}" --keep-last 7 --workloads --lake "$LAKE" --format json >"$answers/removed-$day.json"
exit "$code"
