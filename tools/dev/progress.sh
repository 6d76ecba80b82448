# Sourced by the scripts in tools/ that run for minutes.

# watched LABEL LOG COMMAND...: runs a command whose output goes to LOG and shows that it works:
# `LABEL: [72/127] 310 s` with ninja's count where there is one. On a terminal that line is updated
# in place, elsewhere there is a new one every ten seconds. When the command fails, the end of the
# log is printed. Ctrl-C ends the command too.
watched() {
  local label=$1 log=$2 start=$SECONDS shown=$SECONDS job step
  shift 2
  mkdir -p "$(dirname "$log")"
  set -m  # a process group, which the trap can end as a whole
  "$@" </dev/null >"$log" 2>&1 &
  job=$!
  set +m
  trap "kill -- -$job 2>/dev/null" EXIT
  while kill -0 "$job" 2>/dev/null; do
    sleep 0.2
    [ $((SECONDS - shown)) -ge "$([ -t 2 ] && echo 1 || echo 10)" ] || continue
    shown=$SECONDS
    step=$(tail -c 4096 "$log" | grep -ao '^ *\[[0-9]*/[0-9]*\]' | tail -n 1 || true)
    step="$label: ${step:+${step##* } }$((SECONDS - start)) s"
    if [ -t 2 ]; then printf '\r\033[K%s' "$step" >&2; else echo "$step" >&2; fi
  done
  [ ! -t 2 ] || printf '\r\033[K' >&2
  trap - EXIT
  wait "$job" || { tail -n 40 "$log" >&2; exit 1; }
}
