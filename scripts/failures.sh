#!/usr/bin/env bash
# Lets requests to the system fail in turn while a host uses Tenon: failures.sh EVERY
# First every EVERY-th request of libraries, models and the runtime fails, under the address sanitizer. Then allocations
# of third-party code fail at random, in a plain build. The date chooses the first request, and the output states it:
# FAULT_FROM=N repeats a run.
set -uo pipefail
every=$1
export TENON_BUILD=$PWD/build FAULT_EVERY=$every FAULT_FROM=${FAULT_FROM:-$(($(date +%s) / 86400))}
export ASAN_OPTIONS=detect_leaks=1:allocator_may_return_null=1 UBSAN_OPTIONS=print_stacktrace=1
scripts/zoo.sh build minilm_twin || { echo "0 passed, 1 failed, 0 skipped"; exit 1; }
log=$(mktemp)
trap 'rm -f "$log" "$log.hook"' EXIT
mkdir -p build-asan
if ! { flock build-asan cmake --preset asan && flock build-asan cmake --build build-asan --target test_fault_verbs --parallel "$(nproc)" &&
  cmake --build build --target test_fault_verbs --parallel "$(nproc)"; } >"$log" 2>&1; then
  tail -20 "$log"
  echo "0 passed, 1 failed, 0 skipped"
  exit 1
fi

# Every request that Tenon's code makes must go through the hook, except those of the crash handler, which cannot recover.
requests='malloc calloc realloc reallocarray aligned_alloc posix_memalign memalign valloc strdup strndup asprintf vasprintf getline getdelim
  open_memstream open open64 openat openat64 creat fopen fopen64 fdopen freopen tmpfile opendir fdopendir scandir realpath mkstemp mkdtemp
  memfd_create pipe pipe2 socket socketpair eventfd epoll_create1 inotify_init1 shm_open mmap mmap64 mremap dlopen dlmopen pthread_create
  thrd_create posix_spawn posix_spawnp fork vfork popen system'
past=$(comm -23 <(nm -u build/libtenon_internal.a 2>/dev/null | awk '{print $2}' | sort -u | grep -xF "$(xargs -n 1 <<<"$requests")") \
  <(grep -oE '[a-z_0-9]+' tests/fault/CMakeLists.txt | sort -u))
if [ -z "$past" ]; then
  echo "1 passed, 0 failed, 0 skipped" >"$log.hook"
else
  echo "these requests do not go through the hook (tests/fault/CMakeLists.txt): $past"
fi

build-asan/tests/test_fault_verbs 2>&1 | tee "$log"
FAULT_EVERY=1000000 FAULT_RANDOM=0 FAULT_OTHERS=$((every == 1 ? 1000 : 100)) build/tests/test_fault_verbs 2>&1 | tee -a "$log"
cat "$log" "$log.hook" 2>/dev/null | grep -E '^[0-9]+ passed' | awk '{p += $1; f += $3; s += $5} END {print p " passed, " f + (NR < 3 ? 3 - NR : 0) " failed, " s " skipped"; exit f || NR < 3}'
