#!/usr/bin/env bash
# Compares random graphs with their plain runs: random_graphs.sh BUILD [GRAPHS] [FIRST]
# GRAPHS graphs from number FIRST on, by a process on each processor; then a share of them with each
# instruction set, with one rule left out of each graph, and on the devices sim and opencl.
# Regions are compared bit by bit, with half as many graphs.
set -uo pipefail
build=$1 graphs=${2:-200000} first=${3:-0} jobs=$(nproc) failed=0
export TENON_CACHE=${TENON_CACHE:-$PWD/$build/cache}
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT

run() { # NAME PROGRAM GRAPHS FIRST [VARIABLE=VALUE]...: in $jobs processes
  local name=$1 program=$2 count=$3 from=$4 each pids=() i
  shift 4
  each=$(((count + jobs - 1) / jobs))
  for ((i = 0; i < jobs; i++)); do
    env "$@" TENON_GRAPHS="$each" TENON_GRAPH="$((from + i * each))" "$build/tests/$program" random >"$logs/$i" 2>&1 &
    pids+=($!)
  done
  for ((i = 0; i < jobs; i++)); do
    wait "${pids[i]}" && continue
    failed=1
    tail -100 "$logs/$i"
  done
  echo "$name: $((each * jobs)) graphs"
}

run "random graphs" test_graph_random "$graphs" "$first"
for capability in default avx2 avx512; do
  run "with $capability" test_graph_random "$((graphs / 20))" "$first" TENON_CPU_CAPABILITY=$capability
done
run "each without a rule" test_graph_random "$((graphs / 10))" "$first" TENON_GRAPH_WITHOUT=each
for device in sim opencl; do
  run "on $device" test_graph_random "$((graphs / 100))" "$first" TENON_GRAPH_DEVICE=$device
done
run "regions" test_graph_region "$((graphs / 2))" "$first"
exit $failed
