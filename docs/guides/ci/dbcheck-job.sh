#!/bin/sh
# A CI job: cuts the power of dbcheck's own labs, and keeps the reports.
#
# Plain POSIX shell, for any CI system. What it needs of a runner, and how to use it in
# GitHub Actions and GitLab CI, is in docs/guides/ci.md. Set in the environment:
#
#   DBCHECK            the program                           (dbcheck)
#   DBCHECK_ARTIFACTS  the folder for what the job keeps     (dbcheck-artifacts)
#   DBCHECK_STEPS      which of the steps, in this order     (demo lab-run campaign)
#   DBCHECK_ENGINE     postgresql, mariadb or mysql          (postgresql)
#   DBCHECK_CUT       drive: the power of a virtual drive is cut; process: the server
#                      is killed, which proves much less     (drive)
#   DBCHECK_LAB        more options of `lab run` and `lab up`, split at blanks  ()
#   DBCHECK_CUTS       how many cuts the campaign makes      (10)
#
# Exit code: 0 only if every step passed; else that of the worst step: 1 FAIL, then 4 an
# error, 2 a wrong option or a runner that lacks something, 3 INCONCLUSIVE. On HUP, INT
# and TERM the labs are ended first, then 129, 130 or 143.
set -eu

dbcheck=${DBCHECK:-dbcheck}
case $dbcheck in
/*) ;;
*/*) dbcheck=$PWD/$dbcheck ;; # this job changes the directory
esac
steps=${DBCHECK_STEPS:-demo lab-run campaign}
engine=${DBCHECK_ENGINE:-postgresql}
cut=${DBCHECK_CUT:-drive}
options=${DBCHECK_LAB:-}
cuts=${DBCHECK_CUTS:-10}
lab=ci-$$ # a name of its own, so that two jobs on one runner do not meet

mkdir -p "${DBCHECK_ARTIFACTS:=dbcheck-artifacts}"
artifacts=$(cd "$DBCHECK_ARTIFACTS" && pwd)
work=$(mktemp -d "${TMPDIR:-/tmp}/dbcheck-job.XXXXXX")
worst=0
running=

# Ends what was started: on success, on an error and on a signal.
# shellcheck disable=SC2329 # trap calls it
cleanup() {
    trap '' HUP INT TERM # nothing may interrupt this
    if [ -n "$running" ] && [ -n "${!-}" ]; then
        kill -TERM "$!" 2>/dev/null || : # dbcheck gives the power back, then ends
        wait "$!" || :
    fi
    if [ -e "$work/lab-is-up" ]; then
        "$dbcheck" lab down "$lab" >&2 || :
    fi
    rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

# Runs a command and returns its exit code. It runs in the background because a shell
# handles a signal only when the command in the foreground has ended.
run() {
    running=yes
    "$@" &
    code=0
    wait "$!" || code=$?
    running=
    return "$code"
}

# Notes the exit code of a step if it is worse than those before.
note() {
    case $1 in
    0) said=PASS rank=0 ;;
    1) said=FAIL rank=4 ;;
    2) said='wrong option, or the runner lacks something' rank=2 ;;
    3) said=INCONCLUSIVE rank=1 ;;
    *) said='error, no verdict' rank=3 ;;
    esac
    echo "dbcheck-job: $2: $said (exit code $1)" >&2
    case $worst in 0) so_far=0 ;; 1) so_far=4 ;; 2) so_far=2 ;; 3) so_far=1 ;; *) so_far=3 ;; esac
    if [ "$rank" -gt "$so_far" ]; then
        worst=$1
        [ "$rank" -ne 3 ] || worst=4
    fi
}

# Keeps the reports and the evidence of the result in the folder $1 under the name $2.
keep() {
    kept=0
    run "$dbcheck" report "$1" --format junit --output "$artifacts/$2.xml" || kept=$?
    run "$dbcheck" report "$1" --format html --output "$artifacts/$2.html" || kept=$?
    run "$dbcheck" bundle "$1" --output "$artifacts/$2.dbcheck.tar" || kept=$?
    [ "$kept" -eq 0 ] || note 4 "reports of $2"
}

demo_step() {
    code=0
    run "$dbcheck" demo --cut "$cut" --runs demo >"$artifacts/demo.txt" || code=$?
    cat "$artifacts/demo.txt"
    note "$code" demo
}

lab_run_step() {
    code=0
    # shellcheck disable=SC2086 # the options are to be split
    run "$dbcheck" lab run --engine "$engine" --cut "$cut" --runs runs $options || code=$?
    note "$code" 'lab run'
    for folder in runs/*/; do
        [ ! -d "$folder" ] || keep "${folder%/}" lab-run
    done
}

campaign_step() {
    : >lab-is-up # before it is: the job may be cancelled while it comes up
    code=0
    # shellcheck disable=SC2086
    {
        run "$dbcheck" lab up --engine "$engine" --cut "$cut" --name "$lab" $options &&
            run "$dbcheck" lab inventory >labs.json &&
            run "$dbcheck" campaign "$lab" --inventory labs.json --cuts "$cuts" --folder campaign
    } || code=$?
    note "$code" campaign
    [ ! -d campaign ] || keep campaign campaign
    run "$dbcheck" lab down "$lab" || note "$?" 'lab down'
    rm lab-is-up
}

cd "$work"
export XDG_STATE_HOME="$work/state" # the keys of these runs need not outlive them
for step in $steps; do
    case $step in
    demo) demo_step ;;
    lab-run) lab_run_step ;;
    campaign) campaign_step ;;
    *) note 2 "step $step, which is none of demo, lab-run and campaign" ;;
    esac
done
exit "$worst"
