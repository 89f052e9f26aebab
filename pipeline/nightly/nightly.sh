#!/usr/bin/env bash
# One night: yesterday's flow logs become a workload and an estimate; gates are checked; old scenarios go.
# All of it is safe to repeat: what is done is found done. The exit code is that of the estimate: 0, or 3 if a gate failed;
# else 6 if logs were left out because they cannot be read; 4 means try again.
#
#   TOPOLOGY=cables.csv HOSTS=hosts.csv LABELS=labels.csv LAKE=/lake LOGS=/logs pipeline/nightly/nightly.sh [2026-01-31]
#
# LOGS has a folder 2026-01-31 for each day, or folders 2026/01/31 or year=2026/month=01/day=31 at any depth, as AWS writes
# them below account and region. INGEST_FLAGS and RUN_FLAGS are passed on, such as INGEST_FLAGS='--off-fabric any'.
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

IFS=- read -r year month date <<<"$day"
logs=("$LOGS/$day")
if [ ! -e "$LOGS/$day" ]; then
  mapfile -d '' logs < <(find -L "$LOGS" -type d \( -path "*/$year/$month/$date" -o \
    -path "*/year=$year/month=$month/day=$date" \) -print0 | sort -z)
fi
[ "${#logs[@]}" -gt 0 ] || { echo "nightly: no folder of $day in $LOGS" >&2; exit 1; }
read -ra more_options <<<"${INGEST_FLAGS:-}"

left_out=0
"$parsimon" ingest "${logs[@]}" "${format[@]}" --topology "$TOPOLOGY" --workload "day-$day" "${options[@]}" --skip-damaged \
  --max-rejects "${MAX_REJECTS:-1%}" "${more_options[@]}" --metrics-file "$metrics/parsimon-ingest.prom" \
  "${common[@]}" >"$answers/ingest-$day.json" || left_out=$?
[ "$left_out" = 0 ] || [ "$left_out" = 6 ] || exit "$left_out"

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
[ "$code" != 0 ] || code=$left_out
exit "$code"
