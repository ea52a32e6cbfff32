/* Changes the description of itself while its host waits for it or reads it: words of it, tags,
 * bytes of texts, its size, and the doorbell that says that it is ready. A thread that the library
 * starts while it is loaded does so. */
#include <pthread.h>
#include <stdio.h>

#include "forges.h"

enum { SIZE_AT = 9 * BELL, MOST = 24 << 20 };

static unsigned char *find_mailbox(void) {
  char line[512];
  unsigned long begin, end;
  unsigned char *found = 0;
  FILE *file = fopen("/proc/self/maps", "r");
  while (file && !found && fgets(line, sizeof line, file))
    if (strstr(line, "memfd:tenon") && sscanf(line, "%lx-%lx", &begin, &end) == 2 &&
        end - begin > CHANNEL)
      found = (unsigned char *)begin;
  if (file) fclose(file);
  return found;
}

static void change(unsigned char *mailbox, uint64_t size) {
  uint64_t *words = (uint64_t *)(void *)(mailbox + DESCRIPTION);
  const uint64_t count = size / 8 ? size / 8 : 1;
  switch (next() % 12) {
  case 0:
  case 8:
  case 9:
  case 10:
    mailbox[DESCRIPTION + next() % (size + 8)] = (unsigned char)next();
    break;
  case 1:
    words[next() % count] = any_word();
    break;
  case 2: /* a tag of contract 1, or near it */
    words[next() % count] = next() % 80 | (one_in(4) ? TENON_MUST : 0);
    break;
  case 3: /* the length of a text */
    words[next() % count] = next() % 40;
    break;
  case 4: { /* a part of it again */
    const uint64_t from = next() % count;
    const uint64_t to = next() % count;
    const uint64_t most = count - (from > to ? from : to);
    memmove(&words[to], &words[from], 8 * (most ? next() % most : 0));
    break;
  }
  case 5:
    if (one_in(4))
      *(volatile uint64_t *)(void *)(mailbox + SIZE_AT) =
          one_in(2) ? any_word() : size + next() % 64 - 32;
    break;
  default:
    words[next() % 12] ^= 1ull << next() % 64;
  }
}

/* Turns the first item with a text of many 'A' into a group: the text is a list of items then. */
static void make_group(unsigned char *mailbox, uint64_t size) {
  uint64_t *words = (uint64_t *)(void *)(mailbox + DESCRIPTION);
  for (uint64_t i = 4; i < size / 8; i++)
    if (words[i] == 0x4141414141414141u) {
      words[i - 4] = TENON_TAG_GROUP; /* tag, number, whether it has a function, length, text */
      return;
    }
}

static void *change_all(void *argument) {
  unsigned char *mailbox = argument;
  volatile uint64_t *size_at = (volatile uint64_t *)(void *)(mailbox + SIZE_AT);
  uint64_t size;
  while (!(size = *size_at)) {
  }
  if (size > MOST) return 0;
#ifdef FORGE_GROUP
  make_group(mailbox, size);
  return 0;
#endif
  for (uint64_t i = next() % 3; i > 0; i--)
    change(mailbox, size);
  for (int i = 0; i < 2000; i++)
    if (one_in(1000)) change(mailbox, size);
  if (one_in(20)) __atomic_store_n((uint32_t *)(void *)mailbox, next() % 7, __ATOMIC_SEQ_CST);
  return 0;
}

static __attribute__((constructor)) void start_changing(void) {
  struct timespec now;
  pthread_t thread;
  unsigned char *mailbox = find_mailbox();
  clock_gettime(CLOCK_MONOTONIC, &now);
  random_state ^= (uint64_t)now.tv_nsec * 2654435761u + (uint64_t)getpid();
  if (mailbox) pthread_create(&thread, 0, change_all, mailbox);
}

static tenon_status_t run(tenon_call_t *call) {
  return tenon_fail(call, TENON_UNAVAILABLE, "this library only describes itself");
}

static tenon_status_t infer(tenon_infer_t *infer) {
  infer->outputs[0]->ndim = 0;
  return TENON_OK;
}

/* clang-format off */
TENON_LIBRARY(forges_description, "1.0.0",
  TENON_OP("one(Tensor x, *, int n=3, float[] scales=[1.0, 2.0]) -> Tensor",
    TENON_DOC("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"),
    TENON_TYPES("x: f32|f64; out = x"), TENON_SHAPES("out = x"),
    TENON_TRAITS(TENON_PURE), TENON_KERNEL("cpu", run)),
  TENON_OP("two(Tensor x, Tensor? y=None) -> (Tensor, Tensor)",
    TENON_TYPES("x, y: any; out0 = x; out1 = i64"), TENON_INFER(infer),
    TENON_WHERE("x: known strided"), TENON_KERNEL("cpu f32", run)),
  TENON_OP("view(Tensor(a) x) -> Tensor(a)",
    TENON_TYPES("x: any; out = x"), TENON_INFER(infer)),
  TENON_OP("add(Tensor x, Tensor y) -> Tensor",
    TENON_TYPES("x, y: number; out = x"), TENON_TRAITS(TENON_POINTWISE),
    TENON_KERNEL("cpu", run)))
/* clang-format on */
