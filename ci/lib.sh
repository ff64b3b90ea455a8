# shellcheck shell=bash
# What the scripts in this folder share. Source it: . "$(dirname "$0")/lib.sh"
set -euo pipefail
shopt -s inherit_errexit

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root" # OLDPWD remembers where the caller stood
# Downloads that outlive one run (a guest kernel, a second libfabric). Safe to delete at any time. Not called
# CIRCULANT_…: those variables are the settings of the tool, which refuses ones that it does not know.
CI_CACHE=${CI_CACHE:-${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/circulant}
export CI_CACHE
# What the compiler keeps for the next time costs more than it saves where all is built once.
export CARGO_INCREMENTAL=${CARGO_INCREMENTAL:-0}
# shellcheck disable=SC1091
if ! command -v cargo >/dev/null && [ -r "${HOME:-}/.cargo/env" ]; then . "$HOME/.cargo/env"; fi

say() { printf '%s\n' "$*"; }
die() { printf '%s: %s\n' "$(basename "$0")" "$*" >&2; exit "${failure:-1}"; }
# Ends a step that cannot run here; the caller counts it as skipped and repeats the reason.
skip() { printf 'skip: %s\n' "$*"; exit 77; }

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"
    elif command -v sudo >/dev/null; then sudo -n "$@" || sudo "$@"
    else die "needs root for: $*"
    fi
}

# need_packages NAME… : installs those Debian packages that are missing, and touches nothing else.
need_packages() {
    local name missing=()
    command -v apt-get >/dev/null || { say "no apt here: assuming $* are installed"; return 0; }
    for name; do
        dpkg-query -W -f '${Status}' "$name" 2>/dev/null | grep -q 'ok installed' || missing+=("$name")
    done
    [ ${#missing[@]} -gt 0 ] || return 0
    say "installing ${missing[*]}"
    local get=(env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=600)
    local log; log=$(mktemp)
    { as_root "${get[@]}" update && as_root "${get[@]}" install --no-install-recommends "${missing[@]}"; } \
        >"$log" 2>&1 </dev/null || { tail -n 20 "$log" >&2; rm -f "$log"; die "apt-get could not install ${missing[*]}"; }
    rm -f "$log"
}

# The tool as the tests use it: optimised, with overflow checks and debug assertions. With the examples, of which some
# steps use one, and because cargo then takes the features that it takes for tests: what `cargo test` uses, compiled once
# (ci/selftest).
tool_build=(build --locked --quiet --workspace --profile test --bin circulant --examples)
# The libraries for C, MPI and Python with it, by the same units: apart they would have other features, and all of it would be compiled again.
libraries_build=("${tool_build[@]}" --lib)
# The tests of the workspace in four parts, the fourth is --doc. The proofs compute all the time, and in ci/test run beside what waits. Unit tests of the libraries run for seconds: not optimised they are compiled in
# a quarter of the time. The others run the tool and the examples of its build.
# shellcheck disable=SC2034
units=(--lib --exclude circulant-capi --exclude circulant-python) programs=(--bin circulant --bin xtask '--test=[!p]*' '--test=p[!u]*') proofs=('--test=pu*')
workspace_test() { # OPTION of cargo test…
    case " $* " in *' --lib '*) local -x CARGO_PROFILE_TEST_OPT_LEVEL=0 ;; esac
    cargo test --locked --workspace "$@"
}
# build_libraries: prints where they and the tool are. In ci/test the step `build` has made them, and cargo may be busy.
build_libraries() {
    if [ -n "${CI_TOOL:-}" ]; then dirname "$CI_TOOL"; return; fi
    cargo "${libraries_build[@]}" >&2
    printf '%s\n' "$(target_dir)/debug"
}
build_tool() { cargo "${tool_build[@]}" >&2; printf '%s\n' "$(target_dir)/debug/circulant"; }
build_release() { cargo build --locked --quiet --release --bin circulant >&2; printf '%s\n' "$(target_dir)/release/circulant"; }
target_dir() { printf '%s\n' "${CARGO_TARGET_DIR:-$root/target}"; }

# --- cases, in a script that counts them ---------------------------------------------------------------------
passed=0 failed=0 skipped=0 cases=''
# attempt TITLE COMMAND… : COMMAND judges a case: it prints what is wrong, if anything, and fails then. A case that fails
# is run once more (it may have lacked processor time beside others), and that is said; `step` lists these.
# With `cases` set, a regular expression, only those run whose title it matches.
attempt() {
    local title=$1 start=$SECONDS
    chosen "$title" || return 0
    shift
    if "$@"; then passed=$((passed + 1)); say "ok     $((SECONDS - start)) s  $title"; return 0; fi
    say "once more, alone: $title"
    start=$SECONDS
    if "$@"; then passed=$((passed + 1)); say "ok     $((SECONDS - start)) s  $title"; say "passed alone: $title"; return 0; fi
    failed=$((failed + 1)); say "FAILED $((SECONDS - start)) s  $title"
}
chosen() { [ -z "${cases:-}" ] || [[ $1 =~ $cases ]]; }
# sum: the line that `step` counts, and the script's exit code.
sum() { say "$passed passed, $failed failed, $skipped skipped"; [ "$failed" = 0 ]; }

# run_parts "ALL…" [PART…]: runs the functions of these names, by default all, and counts them.
run_parts() {
    local all part start status
    read -r -a all <<<"$1"
    shift
    [ $# -gt 0 ] || set -- "${all[@]}"
    for part; do
        case " ${all[*]} " in *" $part "*) ;; *) die "no part $part: ${all[*]}" ;; esac
        # not "(…) || …": that would switch errexit off inside
        start=$SECONDS
        set +e; (set -e; "$part"); status=$?; set -e
        case $status in
            0) passed=$((passed + 1)); say "ok     $((SECONDS - start)) s  $part" ;;
            77) skipped=$((skipped + 1)) ;;
            *) failed=$((failed + 1)); say "FAILED $((SECONDS - start)) s  $part" ;;
        esac
    done
    sum
}

# --- a run of steps ------------------------------------------------------------------------------------------
# begin [NAME…]; step NAME SECONDS COMMAND…; step …; finish
# Names given to `begin` are the only steps that run. `beside NAME SECONDS COMMAND…` begins a step and lets it run beside
# those that follow, up to `join`, with what processor time they leave.
#
# A step passes (exit 0), is skipped (exit 77, its last `skip: …` line being the reason) or fails. One that
# itself counts cases (lines `N passed, N failed, N skipped`, else cargo's "test result:" lines) adds these to
# the total; any other counts as one. Its lines `passed alone: CASE` are listed at the end. SECONDS is there to stop what
# hangs, not to judge how long a step takes: several times what it takes on an idle machine.
begin() {
    only=" $* "
    export CARGO_TERM_COLOR=never
    logs=$(target_dir)/ci-logs; mkdir -p "$logs"
    table=() alone=() total_passed=0 total_failed=0 total_skipped=0 begun=$SECONDS joined=()
    declare -gA running=() # process numbers of steps under way
    trap end_steps EXIT
    trap 'say "interrupted after $((SECONDS - begun)) s"; exit 130' INT
    trap 'say "ended from outside (SIGTERM) after $((SECONDS - begun)) s"; exit 143' TERM
}

end_steps() { local pid; for pid in "${!running[@]}"; do kill "$pid" 2>/dev/null || true; wait "$pid" 2>/dev/null || true; done; }

step() {
    wanted "$1" || return 0
    launch "$@"
    judge_step "$1" "$2" "$launched" $SECONDS
}

beside() {
    wanted "$1" || return 0
    launch "$1" "$2" nice -n 5 "${@:3}"
    joined+=("$1 $2 $launched $SECONDS")
}

join() {
    local step fields_of_step
    for step in "${joined[@]}"; do read -r -a fields_of_step <<<"$step"; judge_step "${fields_of_step[@]}"; done
    joined=()
}

wanted() { case $only in '  ' | *" $1 "*) ;; *) return 1 ;; esac; }
log_of() { printf '%s\n' "$logs/${1//[^A-Za-z0-9.-]/_}.log"; }

# launch NAME SECONDS COMMAND…: begins a step; its process is $launched.
launch() {
    local name=$1 limit=$2
    shift 2
    case $1 in ci/*) [ -x "$1" ] || set -- sh -c "echo 'skip: there is no $1'; exit 77" ;; esac
    printf '%s  %-28s …\n' "$(clock "$begun")" "$name"
    # shellcheck disable=SC2016 # that shell expands it
    timeout --kill-after=20 "$limit" bash -c 'TIMEFORMAT="processor time: %U %S"; time "$@"' step "$@" \
        >"$(log_of "$name")" 2>&1 </dev/null &
    launched=$!
    running[$launched]=1
}

# judge_step NAME SECONDS PROCESS START: waits for its end, and adds it to the table.
judge_step() {
    local name=$1 limit=$2 pid=$3 start=$4 status=0 verdict passed=0 failed=0 skipped=0 reason='' log
    log=$(log_of "$name")
    wait "$pid" || status=$?
    unset "running[$pid]"
    read -r passed failed skipped < <(count "$log")
    case $status in
        0) verdict=ok; [ $((passed + failed + skipped)) -gt 0 ] || passed=1 ;;
        77) verdict=skipped; reason=$(sed -n 's/^skip: //p' "$log" | tail -n 1); skipped=$((skipped + 1)) ;;
        124 | 137) verdict="FAILED (over $limit s)"; failed=$((failed + 1)) ;;
        *) verdict="FAILED (exit $status)"; [ "$failed" -gt 0 ] || failed=1 ;;
    esac
    # a step that counts a failure has failed, whatever its exit code says
    if [ "$status" = 0 ] && [ "$failed" -gt 0 ]; then verdict="FAILED (counted $failed)"; fi
    total_passed=$((total_passed + passed)) total_failed=$((total_failed + failed))
    total_skipped=$((total_skipped + skipped))
    if [ "$status" = 0 ] && [ "$skipped" -gt 0 ]; then
        reason=$(sed -n 's/^skip: //p' "$log" | sort -u | head -n 3 | paste -sd ';')
    fi
    local again; mapfile -t again < <(sed -n 's/^passed alone: //p' "$log")
    [ ${#again[@]} = 0 ] || { verdict+=" (${#again[@]} only when run again alone)"; alone+=("${again[@]/#/$name: }"); }
    # indented: sums in it are not those of this run
    case $verdict in FAILED*) say "--- the end of $log"; tail -n 80 "$log" | sed 's/^/  | /'; say "---" ;; esac
    table+=("$(printf '%-28s %6d s %6s s %7d %7d %8d   %s' "$name" $((SECONDS - start)) "$(processor "$log")" "$passed" "$failed" \
        "$skipped" "$verdict${reason:+: $reason}")")
    printf '%s  %-28s %s, %d s\n' "$(clock "$begun")" "$name" "$verdict${reason:+: $reason}" $((SECONDS - start))
}

# Sums what a log says it counted: "passed failed skipped".
count() {
    awk '/^test result: / { for (i = 2; i <= NF; i++) { if ($i ~ /^passed/) cp += $(i-1)
                              if ($i ~ /^failed/) cf += $(i-1); if ($i ~ /^ignored/) cs += $(i-1) } }
         /^[0-9]+ passed, [0-9]+ failed, [0-9]+ skipped\r?$/ { sums++; p += $1; f += $3; s += $5 }
         END { if (sums) print p, f, s; else print cp + 0, cf + 0, cs + 0 }' "$1"
}

# The processor time of a step, of all cores, in seconds; "-" if it was killed.
processor() { awk '/^processor time: / { t = $3 + $4; seen = 1 } END { if (seen) printf "%.0f", t; else print "-" }' "$1"; }

clock() { local s=$((SECONDS - $1)); printf '%3d:%02d' $((s / 60)) $((s % 60)); }

finish() {
    [ ${#table[@]} -gt 0 ] || die "no such step:$only"
    say ""
    printf '%-28s %8s %8s %7s %7s %8s\n' step time cpu passed failed skipped
    printf '%s\n' "${table[@]}"
    if [ ${#alone[@]} -gt 0 ]; then
        say "failed beside others, passed when run again alone:"
        printf 'passed alone: %s\n' "${alone[@]}"
    fi
    say "whole run: $((SECONDS - begun)) s; logs in $logs"
    say "$total_passed passed, $total_failed failed, $total_skipped skipped"
    [ "$total_failed" = 0 ]
}
