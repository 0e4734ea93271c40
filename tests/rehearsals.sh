#!/usr/bin/env bash
# Every study for a few updates and one seed, each by its own command, one line each: `make rehearsals`. Arms of chapter
# and batch_size differ in their updates, so they get a tenth of their own; of batch_size two arms, for it has a grid.
set -uo pipefail
cd "$(dirname "$0")/.."
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
failed=0
for study in $(basename -s .py -a sweeps/[a-z]*.py | grep -vx baseline); do
    started=$(date +%s)
    case $study in
        chapter) shorter="" ;;
        batch_size) shorter="--arms post-256" ;;
        *) shorter="--steps 100" ;;
    esac
    if .venv/bin/python "sweeps/$study.py" --preset quick $shorter --seeds 1 --results "$folder" \
        --tracking-uri "sqlite:///$folder/mlflow.db" >"$folder/said" 2>&1 && test -s "$folder/$study"-*/report.html; then
        runs=$(grep -o 'All .* recorded' "$folder/said" || tail -n 1 "$folder/said")
        echo "$study: $runs, $(($(date +%s) - started)) s"
    else
        failed=1
        echo "$study: failed"
        tail -n 20 "$folder/said"
    fi
done
exit $failed
