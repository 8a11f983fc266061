#!/usr/bin/env bash
# Trains the fault experiments of a larger model on one GPU, and stores every result and record.
#
#   benchmarks/lab_on_gpu.sh OUT embedded-large|smollm2 [SECONDS [WORKERS]]
#
# Runs that have not ended after SECONDS leave no result; the page of the experiments lists them as not run. Unpack
# OUT/MODEL.tar.gz in the repository, and evaluate it where there is no GPU:
#
#   tar xzf MODEL.tar.gz && grpo-doctor lab --model MODEL --jobs 0 --evidence docs/evidence
set -euo pipefail
out=$(realpath "$1") model=$2 seconds=${3:-420} workers=${4:-14}
cd "$(dirname "$0")/.."
export PYTHONPATH=$PWD${PYTHONPATH:+:$PYTHONPATH} GRPO_DOCTOR_CACHE=${GRPO_DOCTOR_CACHE:-build/lab}
began=$SECONDS
mkdir -p "runs/lab/$model"
# once, for all runs: embedded-large is warmed up
python3 -m grpo_doctor run --model "$model" --set max_steps=1 --out "$(mktemp -d)/first" >"$out/$model.log" 2>&1
echo "the first step ended after $((SECONDS - began)) s"
timeout "$((seconds - SECONDS + began))" \
	python3 -m grpo_doctor lab --yes --model "$model" --jobs "$workers" >>"$out/$model.log" 2>&1 || echo "lab ended with $?"
tar czf "$out/$model.tar.gz" --exclude=state.pt "runs/lab/$model"
echo "$(find "runs/lab/$model" -name '*.json' | wc -l) runs have ended after $((SECONDS - began)) s"
tail -n 5 "$out/$model.log"
