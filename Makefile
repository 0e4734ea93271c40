# The commands of this project. Each sets up what it needs first; setting up again costs nothing.

PYTHON ?= python3
BIN := .venv/bin
STARTED := $(shell date +%s)
RESULTS ?= results
TRACKING ?= sqlite:///mlflow.db

.PHONY: help setup sweep rehearsal rehearsals test lint ui findings benchmark calibration claims cluster-check constraints clean

help: ## show these lines
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/make \1	\2/' | expand -t 20

setup: .venv/ready ## make .venv with the pinned packages

# Written last, so that a set-up that was interrupted is made again.
.venv/ready: constraints.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "This needs Python 3.11 or newer; install it, or name one: make PYTHON=/path/to/python3.11 ..."; exit 2; }
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

rehearsal: .venv/ready ## the main job in 3 to 5 minutes: every part at work, nothing found out
	$(BIN)/python sweeps/ffn_ratio.py --preset quick
	@$(took)

rehearsals: .venv/ready ## every study at work for a few updates, one line each
	bash tests/rehearsals.sh

sweep: .venv/ready ## the main job: three ways to spend parameters, ten seeds each, a verdict
	$(BIN)/python sweeps/ffn_ratio.py --seeds 10
	@$(took)

test: .venv/ready lint ## check style and types, run the tests
	$(BIN)/python -m pytest --numprocesses 2 --dist loadfile --no-loadscope-reorder

lint: .venv/ready
	$(BIN)/ruff check --quiet .
	$(BIN)/ruff format --quiet --check .
	$(BIN)/mypy

ui: .venv/ready ## open the MLflow UI on http://127.0.0.1:5000
	MLFLOW_DISABLE_TELEMETRY=true MLFLOW_SERVER_ENABLE_JOB_EXECUTION=false \
		$(BIN)/mlflow ui --backend-store-uri $(TRACKING) --host 127.0.0.1 --port 5000

# docs/findings/chapter.md is what `make claims` writes, so the finding of the study "chapter" has another name.
findings: .venv/ready ## write the report of every study in RESULTS again, copy its finding to docs/findings (not of rehearsals)
	for file in $(RESULTS)/*/study.json; do \
		test -f "$$file" || { echo "There is no study in $(RESULTS); name another folder: make findings RESULTS=docs/records"; exit 2; }; \
		folder=$${file%/study.json}; study=$${folder##*/}; \
		case $$study in *-quick|*-quick-*) continue;; chapter) study=chapter_runs;; esac; \
		$(BIN)/python -m analysis.report "$$folder" && cp "$$folder/finding.md" "docs/findings/$$study.md" || exit; \
	done

benchmark: .venv/ready ## this project's training speed beside a plain loop, by seeds in lockstep (20 minutes)
	$(BIN)/python benchmarks/throughput.py --json docs/benchmarks/throughput.json

calibration: .venv/ready ## error rates of the verdicts by simulation, beside those of what people use today (5 minutes)
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/calibration.py

claims: .venv/ready ## check the source chapter's numbers by computing them (a minute or two)
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/chapter_claims.py

cluster-check: .venv/ready ## try cluster.yaml on this machine as if it were three (root, Linux, 10 minutes, 5 GB)
	bash tests/cluster_check.sh

constraints: .venv/ready ## pin the versions that are installed now
	{ head -n 1 constraints.txt; $(BIN)/python -m pip freeze --exclude-editable | sed 's/+cpu//'; } > constraints.new
	mv constraints.new constraints.txt

clean: ## remove the environment; results stay
	rm -rf .venv *.egg-info

took = s=$$(( $$(date +%s) - $(STARTED) )); echo "From the command to the verdict, set-up included: $$((s / 60)) min $$((s % 60)) s."
