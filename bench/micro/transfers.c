/* transfers.c: what copies of tensors between host and device cost beside memcpy.
 * bench/transfers.py runs it and prints the tables. It is linked with libtenon. Cases take turns,
 * and each round begins with another case.
 *
 *   transfers DEVICE ROUNDS
 *       for each size: bytes, then nanoseconds (10th percentile) of memcpy, of copies in and out of
 *       pinned tensors (copy_async), and of other tensors (copy_to); the wait for each copy is
 *       included
 *
 *   transfers DEVICE across TO ROUNDS
 *       the same for memcpy, for DEVICE to TO, and back */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/tenon.h>
#include <time.h>

enum {
  MOST_ROUNDS = 2000,
  CASES = 5,
};

static void check(tenon_status_t status) {
  if (status == TENON_OK) return;
  fprintf(stderr, "%s\n", tenon_error());
  exit(1);
}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static int compare(const void *p, const void *q) {
  double d = *(const double *)p - *(const double *)q;
  return (d > 0) - (d < 0);
}

static void *(*volatile copy_plainly)(void *, const void *, size_t) = memcpy;
static const tenon_device_t cpu = {1, 0};

typedef struct sides_t {
  int64_t bytes;
  tenon_device_t device;
  tenon_device_t other;
  tenon_tensor_t *here;
  tenon_tensor_t *plain;
  tenon_tensor_t *pinned;
  tenon_tensor_t *there;
  tenon_tensor_t *across;
} sides_t;

static void plainly(const sides_t *s) {
  copy_plainly(s->plain->data, s->here->data, (size_t)s->bytes);
}
static void begin(const tenon_tensor_t *from, tenon_tensor_t *to, tenon_device_t device) {
  check(tenon_tensor_copy_async(from, to));
  check(tenon_device_synchronize(device));
}
static void pinned_in(const sides_t *s) { begin(s->pinned, s->there, s->device); }
static void pinned_out(const sides_t *s) { begin(s->there, s->pinned, s->device); }
static void to(const tenon_tensor_t *from, tenon_device_t device, tenon_device_t wait) {
  tenon_tensor_t *made;
  check(tenon_tensor_copy_to(from, device, &made));
  check(tenon_device_synchronize(wait));
  tenon_tensor_release(made);
}
static void plain_in(const sides_t *s) { to(s->here, s->device, s->device); }
static void plain_out(const sides_t *s) { to(s->there, cpu, s->device); }
static void across(const sides_t *s) { begin(s->there, s->across, s->other); }
static void back(const sides_t *s) { begin(s->across, s->there, s->device); }

static void measure(const sides_t *s, void (*const *cases)(const sides_t *), int count,
                    int rounds) {
  static double times[CASES][MOST_ROUNDS];
  for (int r = -2; r < rounds; r++)
    for (int k = 0; k < count; k++) {
      int c = (k + r + 2) % count;
      double start = now();
      cases[c](s);
      if (r >= 0) times[c][r] = now() - start;
    }
  printf("%lld", (long long)s->bytes);
  for (int c = 0; c < count; c++) {
    qsort(times[c], (size_t)rounds, sizeof **times, compare);
    printf(" %.0f", times[c][rounds / 10]);
  }
  puts("");
  fflush(stdout);
}

static tenon_tensor_t *host_of(int64_t bytes, int value) {
  tenon_tensor_t *t;
  check(tenon_tensor_create(tenon_dtype(TENON_U8), 1, &bytes, &t));
  memset(t->data, value, (size_t)bytes);
  return t;
}

int main(int argc, char **argv) {
  static void (*const here[CASES])(const sides_t *) = {plainly, pinned_in, pinned_out, plain_in,
                                                       plain_out};
  static void (*const between[3])(const sides_t *) = {plainly, across, back};
  int is_across = argc == 5 && strcmp(argv[2], "across") == 0;
  int rounds = argc > 2 ? atoi(argv[argc - 1]) : 0;
  if ((argc != 3 && !is_across) || rounds < 1) {
    fprintf(stderr, "usage: transfers DEVICE [across TO] ROUNDS\n");
    return 2;
  }
  if (rounds > MOST_ROUNDS) rounds = MOST_ROUNDS;
  for (int64_t bytes = 4096; bytes <= 64 << 20; bytes *= 4) {
    sides_t s = {.bytes = bytes};
    tenon_dtype_t u8 = tenon_dtype(TENON_U8);
    check(tenon_device_find(argv[1], 0, &s.device));
    if (is_across) check(tenon_device_find(argv[3], 0, &s.other));
    s.here = host_of(bytes, 1);
    s.plain = host_of(bytes, 2);
    check(tenon_tensor_create_pinned(s.device, u8, 1, &bytes, &s.pinned));
    memset(s.pinned->data, 3, (size_t)bytes);
    check(tenon_tensor_copy_to(s.here, s.device, &s.there));
    if (is_across) check(tenon_tensor_copy_to(s.here, s.other, &s.across));
    measure(&s, is_across ? between : here, is_across ? 3 : CASES,
            bytes > 1 << 20 ? rounds / 8 + 3 : rounds);
    tenon_tensor_release(s.here);
    tenon_tensor_release(s.plain);
    tenon_tensor_release(s.pinned);
    tenon_tensor_release(s.there);
    tenon_tensor_release(s.across);
  }
  tenon_shutdown();
  return 0;
}
