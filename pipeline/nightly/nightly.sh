#!/usr/bin/env bash
# One night: yesterday's flow logs become a workload and an estimate; gates are checked; old scenarios go; the answers are
# published. All of it is safe to repeat: what is done is found done.
#
#   TOPOLOGY=cables.csv HOSTS=hosts.csv LABELS=labels.csv LAKE=/lake LOGS=/logs nightly.sh [2026-01-31]
#   TOPOLOGY=s3://net/cables.csv HOSTS=s3://net/hosts.csv LAKE=/lake LOGS='s3://logs/{YEAR}/{MONTH}/{DAY}/*.gz' \
#     PUBLISH=s3://company/parsimon nightly.sh
#
# LOGS is a directory with a folder 2026-01-31 for each day, or folders 2026/01/31 or year=2026/month=01/day=31 at any
# depth; or a URL or pattern with {YEAR}, {MONTH} and {DAY}. INGEST_FLAGS, RUN_FLAGS and PUBLISH_FLAGS are passed on.
#
# The exit code: 0, or 3 if a gate failed; else 6 if logs were left out because they cannot be read. 4 means try again.
# ALERT is a command that is called with each code but 0, and the day. Its standard input has a line about it.
set -euo pipefail

: "${LAKE:?directory of the lake}" "${TOPOLOGY:?topology}" "${LOGS:?logs: a directory, or a URL of a day}"
day=${1:-$(date -u -d yesterday +%F)}
IFS=- read -r year month date <<<"$day"
parsimon=${PARSIMON:-parsimon}
metrics=${METRICS:-$LAKE}                       # textfile directory of node_exporter
answers=${ANSWERS:-$LAKE}                       # ingest-DAY.json, run-DAY.json, removed-DAY.json and published-DAY.json
common=(--lake "$LAKE" --log-format json --quiet)

# keep writes the output of a command to a file, which it replaces when the command has ended with one of the given codes.
keep() { # FILE CODES COMMAND...
  local file=$1 codes=$2 code=0
  shift 2
  "$@" >"$file.new" || code=$?
  case " $codes " in *" $code "*) mv "$file.new" "$file" ;; *) rm -f "$file.new" ;; esac
  return "$code"
}

# night does all steps. It exits with the code of the night.
night() {
  mkdir -p "$LAKE" "$metrics" "$answers"

  options=()
  [ -z "${HOSTS:-}" ] || options+=(--hosts "$HOSTS")
  [ -z "${LABELS:-}" ] || options+=(--labels "$LABELS")
  format=(--format "${FORMAT:-vpc},json")
  [ -z "${MAPPING:-}" ] || format=(--format json --mapping "$MAPPING") # a format of your own, see parsimon help ingest

  logs=("$LOGS/$day")
  if [[ $LOGS == *://* || $LOGS == *{DAY}* ]]; then
    at=${LOGS//\{YEAR\}/$year}
    at=${at//\{MONTH\}/$month}
    logs=("${at//\{DAY\}/$date}")
    [ "${logs[0]}" != "$LOGS" ] || { echo "nightly: LOGS has no {DAY}: every night would read all days" >&2; exit 2; }
  elif [ ! -e "$LOGS/$day" ]; then
    mapfile -d '' logs < <(find -L "$LOGS" -type d \( -path "*/$year/$month/$date" -o \
      -path "*/year=$year/month=$month/day=$date" \) -print0 | sort -z)
  fi
  [ "${#logs[@]}" -gt 0 ] || { echo "nightly: no folder of $day in $LOGS" >&2; exit 1; }
  read -ra more_options <<<"${INGEST_FLAGS:-}"

  left_out=0
  keep "$answers/ingest-$day.json" "0 6" "$parsimon" ingest "${logs[@]}" "${format[@]}" --topology "$TOPOLOGY" \
    --workload "day-$day" "${options[@]}" --skip-damaged --max-rejects "${MAX_REJECTS:-1%}" "${more_options[@]}" \
    --metrics-file "$metrics/parsimon-ingest.prom" --wait "${WAIT:-30m}" "${common[@]}" || left_out=$?
  [ "$left_out" = 0 ] || [ "$left_out" = 6 ] || exit "$left_out"

  # A day that does not fit a simulation: FROM and TO cut out a part, such as T09:00:00Z to T09:10:00Z.
  part=()
  [ -z "${FROM:-}" ] || part+=(--from "$day$FROM" --to "$day${TO:?end of the part}")
  read -ra more <<<"${RUN_FLAGS:-}" # such as --within 2% --by service
  gates=()
  while IFS= read -r gate; do [ -z "$gate" ] || gates+=(--fail-if "$gate"); done <<<"${GATES:-}"

  code=0
  keep "$answers/run-$day.json" "0 3" "$parsimon" run --workload "day-$day" --name "$day" "${part[@]}" "${gates[@]}" \
    "${more[@]}" --format json --metrics-file "$metrics/parsimon-run.prom" --wait "${WAIT:-30m}" "${common[@]}" || code=$?
  [ "$code" = 0 ] || [ "$code" = 3 ] || exit "$code"

  keep "$answers/removed-$day.json" 0 "$parsimon" rm --older-than "${KEEP:-30d}" --keep-last 7 --workloads --lake "$LAKE" \
    --format json

  # A failed gate is published, too: people look at the tables to see why it failed.
  if [ -n "${PUBLISH:-}" ]; then
    read -ra more <<<"${PUBLISH_FLAGS:---prune --expire 30d}"
    keep "$answers/published-$day.json" 0 "$parsimon" publish "$PUBLISH" --format json "${more[@]}" "${common[@]}"
  fi
  [ "$code" != 0 ] || code=$left_out
  exit "$code"
}

set +e
(set -e && night)
code=$?
set -e
if [ "$code" != 0 ] && [ -n "${ALERT:-}" ]; then
  case $code in
    3) what="a gate failed, see $answers/run-$day.json" ;;
    4) what="another process works on the lake, or a file changed: it will be repeated" ;;
    6) what="logs that cannot be read were left out, see $answers/ingest-$day.json" ;;
    *) what="it failed, see its log" ;;
  esac
  $ALERT "$code" "$day" <<<"parsimon, night of $day: $what (exit code $code)" || echo "nightly: $ALERT failed" >&2
fi
exit "$code"
