/* Symbolic extents: the normal form, equalities, contradictions, and agreement with plain integers.
 * For the last, random expressions are built on symbols, the symbols are bound afterwards, and the
 * result is compared with C's arithmetic. */
#include "base/status.h"
#include "core/extent.h"

#include <string.h>

#include "base/memory.h"
#include "base/thread.h"
#include "faults.h"
#include "texts.h"

static tn_extents_t *table;

static tenon_dim_t symbol(const char *name) {
  tenon_dim_t dim = {0};
  CHECK_STATUS(tn_extents_symbol(table, name, &dim), TENON_OK);
  return dim;
}

static tenon_dim_t known(int64_t number) { return tenon_extent(number); }

static tenon_dim_t operate(uint32_t operation, tenon_dim_t a, tenon_dim_t b) {
  tenon_dim_t out = {-99};
  CHECK_STATUS(tn_extents_operate(table, operation, a, b, &out), TENON_OK);
  return out;
}

static const char *refused(uint32_t operation, tenon_dim_t a, tenon_dim_t b) {
  tenon_dim_t out;
  CHECK_STATUS(tn_extents_operate(table, operation, a, b, &out), TENON_INVALID);
  return tn_error();
}

static tenon_dim_t add(tenon_dim_t a, tenon_dim_t b) { return operate(TENON_DIM_ADD, a, b); }
static tenon_dim_t sub(tenon_dim_t a, tenon_dim_t b) { return operate(TENON_DIM_SUB, a, b); }
static tenon_dim_t mul(tenon_dim_t a, tenon_dim_t b) { return operate(TENON_DIM_MUL, a, b); }
static tenon_dim_t quotient(tenon_dim_t a, tenon_dim_t b) { return operate(TENON_DIM_DIV, a, b); }
static int same(tenon_dim_t a, tenon_dim_t b) { return a.value == b.value; }

static int prints(tenon_dim_t dim, const char *expected) {
  tn_text_t text = {0};
  tn_extents_print(table, dim, &text);
  int ok = strcmp(tn_text_get(&text), expected) == 0;
  if (!ok) fprintf(stderr, "  %s, not %s\n", tn_text_get(&text), expected);
  tn_text_clear(&text);
  return ok;
}

static void fresh_table(void) {
  tn_extents_release(table);
  CHECK_STATUS(tn_extents_create(&table), TENON_OK);
}

TEST("equal names give the same symbol, and no name gives a fresh symbol") {
  fresh_table();
  CHECK(same(symbol("batch"), symbol("batch")) && !same(symbol("batch"), symbol("seq")));
  CHECK(!same(symbol(NULL), symbol(NULL)) && !same(symbol(""), symbol("")));
  CHECK(!tenon_is_known(symbol("batch")) && prints(symbol("batch"), "batch") &&
        prints(known(4), "4"));
  fresh_table();
  CHECK(prints(symbol(NULL), "?0") && prints(symbol("a"), "a") && prints(symbol(NULL), "?1"));
}

TEST("equal sums and products have one form") {
  fresh_table();
  tenon_dim_t n = symbol("n");
  tenon_dim_t s = symbol("s");
  tenon_dim_t b = symbol("b");
  CHECK(same(sub(add(n, n), n), n) && same(sub(n, n), known(0)) && same(add(n, known(0)), n) &&
        same(mul(n, known(1)), n));
  CHECK(same(mul(n, known(0)), known(0)) && same(add(n, s), add(s, n)) &&
        same(mul(n, s), mul(s, n)));
  CHECK(same(mul(add(n, s), add(n, s)), add(add(mul(n, n), mul(s, s)), mul(known(2), mul(n, s)))));
  CHECK(same(quotient(mul(mul(b, s), known(12)), known(12)), mul(b, s)));
  CHECK(same(quotient(mul(mul(b, s), known(12)), mul(known(4), b)), mul(known(3), s)));
  CHECK(same(quotient(mul(add(n, known(1)), mul(b, known(12))), add(n, known(1))),
             mul(known(12), b)));
  CHECK(prints(add(mul(known(2), s), known(1)), "2*s+1") && prints(sub(known(4), n), "-n+4") &&
        prints(mul(n, s), "n*s"));
  CHECK(prints(sub(mul(n, mul(n, s)), mul(known(3), b)), "n*n*s-3*b"));
}

TEST("operations on numbers give numbers, and division rounds down as in Python") {
  fresh_table();
  CHECK(same(quotient(known(-7), known(2)), known(-4)) &&
        same(quotient(known(7), known(-2)), known(-4)));
  CHECK(same(operate(TENON_DIM_CEIL_DIV, known(7), known(2)), known(4)) &&
        same(operate(TENON_DIM_CEIL_DIV, known(-7), known(2)), known(-3)));
  CHECK(same(operate(TENON_DIM_MOD, known(-7), known(3)), known(2)) &&
        same(operate(TENON_DIM_MOD, known(7), known(-3)), known(-2)));
  CHECK(same(operate(TENON_DIM_MIN, known(3), known(5)), known(3)) &&
        same(operate(TENON_DIM_MAX, known(3), known(5)), known(5)));
  CHECK(same(operate(TENON_DIM_BROADCAST, known(1), known(5)), known(5)) &&
        same(operate(TENON_DIM_BROADCAST, known(0), known(1)), known(0)));
  CHECK(same(operate(TENON_DIM_TEST_EQUAL, known(3), known(5)), known(0)) &&
        same(operate(TENON_DIM_TEST_LESS, known(3), known(5)), known(1)));
  CHECK(same(operate(TENON_DIM_EQUAL, known(3), known(3)), known(3)) &&
        same(operate(TENON_DIM_BOUND, known(3), known(3)), known(3)));
}

TEST("quotients cancel common factors, and equal quotients have one form") {
  fresh_table();
  tenon_dim_t n = symbol("n");
  CHECK(same(quotient(add(mul(known(4), n), known(3)), known(4)), n));
  CHECK(same(quotient(sub(n, known(1)), known(2)),
             sub(quotient(add(n, known(1)), known(2)), known(1))));
  CHECK(same(operate(TENON_DIM_CEIL_DIV, n, known(2)), quotient(add(n, known(1)), known(2))));
  CHECK(same(quotient(mul(known(2), n), known(4)), quotient(n, known(2))));
  CHECK(same(quotient(mul(known(12), n), known(8)), add(n, quotient(n, known(2)))));
  CHECK(same(operate(TENON_DIM_MOD, add(mul(known(4), n), known(7)), known(4)), known(3)));
  CHECK(same(operate(TENON_DIM_MOD, n, known(1)), known(0)) && same(quotient(n, n), known(1)) &&
        same(quotient(known(0), n), known(0)));
  CHECK(prints(quotient(add(n, known(1)), known(2)), "(n+1)/2") &&
        prints(operate(TENON_DIM_MOD, n, known(4)), "n%4"));
  CHECK(prints(mul(known(3), quotient(n, known(2))), "3*(n/2)") &&
        prints(add(quotient(n, known(2)), known(1)), "(n/2)+1"));
  CHECK(prints(operate(TENON_DIM_CEIL_DIV, known(7), n), "ceil(7/n)") &&
        prints(quotient(n, symbol("m")), "n/m"));
}

TEST("minimum, maximum and comparisons are decided where the ranges of symbols allow it") {
  fresh_table();
  tenon_dim_t n = symbol("n");
  tenon_dim_t m = symbol("m");
  tenon_dim_t bound = operate(TENON_DIM_BOUND, known(128), known(2));
  CHECK(same(operate(TENON_DIM_MAX, n, known(0)), n) &&
        same(operate(TENON_DIM_MIN, n, known(-1)), known(-1)));
  CHECK(same(operate(TENON_DIM_MIN, n, add(n, known(1))), n) &&
        same(operate(TENON_DIM_MAX, n, n), n));
  CHECK(same(operate(TENON_DIM_MIN, bound, known(200)), bound) &&
        same(operate(TENON_DIM_MAX, bound, known(128)), known(128)));
  CHECK(same(operate(TENON_DIM_TEST_LESS, n, known(0)), known(0)) &&
        same(operate(TENON_DIM_TEST_LESS, n, add(n, known(1))), known(1)));
  CHECK(same(operate(TENON_DIM_TEST_EQUAL, n, add(n, known(1))), known(0)) &&
        same(operate(TENON_DIM_TEST_EQUAL, n, n), known(1)));
  CHECK(same(operate(TENON_DIM_TEST_EQUAL, bound, known(1)), known(0)) &&
        !tenon_is_known(operate(TENON_DIM_TEST_EQUAL, bound, known(5))));
  tenon_dim_t most = operate(TENON_DIM_MAX, n, m);
  CHECK(same(most, operate(TENON_DIM_MAX, m, n)) && same(operate(TENON_DIM_MAX, most, n), most) &&
        prints(most, "max(n, m)"));
  CHECK(prints(operate(TENON_DIM_TEST_EQUAL, n, known(3)), "(n==3)") &&
        prints(operate(TENON_DIM_TEST_LESS, n, m), "(n<m)"));
  CHECK(prints(operate(TENON_DIM_MIN, add(n, known(1)), m), "min(m, n+1)"));
}

TEST("each bounded extent is a new symbol and prints its bound") {
  fresh_table();
  tenon_dim_t n = symbol("n");
  tenon_dim_t a = operate(TENON_DIM_BOUND, known(128), known(0));
  tenon_dim_t b = operate(TENON_DIM_BOUND, known(128), known(0));
  CHECK(!same(a, b) && prints(a, "?0<=128") && prints(b, "?1<=128") &&
        prints(mul(known(2), a), "2*?0"));
  CHECK(prints(operate(TENON_DIM_BOUND, known(-1), known(0)), "?2") &&
        prints(operate(TENON_DIM_BOUND, mul(known(2), n), known(0)), "?3<=2*n"));
  CHECK_TEXT(refused(TENON_DIM_BOUND, known(3), known(5)),
             "extents: bound(3, 5) leaves no possible value");
  CHECK_TEXT(refused(TENON_DIM_BOUND, known(-2), known(0)),
             "extents: bound(-2, 0) has a negative limit");
  CHECK_TEXT(refused(TENON_DIM_EQUAL, a, known(129)), "extents: ?0<=128 = 129 is impossible");
  CHECK(same(operate(TENON_DIM_EQUAL, a, known(5)), known(5)) &&
        same(tn_extents_resolve(table, a), known(5)));
}

TEST("an equality binds symbols, and expressions that contain them follow") {
  fresh_table();
  tenon_dim_t n = symbol("n");
  tenon_dim_t m = symbol("m");
  tenon_dim_t k = symbol("k");
  tenon_dim_t product = mul(n, add(m, known(1)));
  tenon_dim_t half = quotient(n, known(2));
  tenon_dim_t larger = operate(TENON_DIM_MAX, n, m);
  CHECK(same(operate(TENON_DIM_EQUAL, n, m), n) && same(tn_extents_resolve(table, m), n));
  CHECK(same(tn_extents_resolve(table, larger), n) &&
        same(tn_extents_resolve(table, product), add(mul(n, n), n)));
  CHECK(same(operate(TENON_DIM_EQUAL, mul(known(2), m), known(12)), known(12)));
  CHECK(same(tn_extents_resolve(table, n), known(6)) &&
        same(tn_extents_resolve(table, product), known(42)));
  CHECK(same(tn_extents_resolve(table, half), known(3)) &&
        same(tn_extents_resolve(table, larger), known(6)));
  CHECK(prints(product, "42") && same(add(n, k), add(k, known(6))));
  CHECK(same(operate(TENON_DIM_EQUAL, k, k), k) &&
        same(tn_extents_resolve(table, known(7)), known(7)));
}

TEST("an equality of expressions is solved for a symbol, and for one without a name first") {
  fresh_table();
  tenon_dim_t n = symbol("n");
  tenon_dim_t any = symbol(NULL);
  tenon_dim_t m = symbol("m");
  tenon_dim_t chosen;
  CHECK(same(operate(TENON_DIM_EQUAL, add(any, known(1)), mul(known(2), n)), mul(known(2), n)));
  CHECK(same(tn_extents_resolve(table, any), sub(mul(known(2), n), known(1))));
  chosen = operate(TENON_DIM_BROADCAST, n, m);
  operate(TENON_DIM_EQUAL, chosen, symbol("both"));
  CHECK(prints(symbol("both"), "broadcast(n, m)"));
  operate(TENON_DIM_EQUAL, n, known(1));
  CHECK(prints(symbol("both"), "m"));
  operate(TENON_DIM_EQUAL, quotient(m, known(2)), known(3));
  CHECK(same(tn_extents_resolve(table, quotient(m, known(2))), known(3)) && prints(m, "m"));
  CHECK(same(operate(TENON_DIM_EQUAL, mul(m, m), known(36)), known(36)));
}

TEST("a chain of many equalities is resolved in either direction") {
  for (int direction = 0; direction < 2; direction++) {
    enum { COUNT = 20000 };
    static tenon_dim_t all[COUNT], plus[200];
    fresh_table();
    for (int i = 0; i < COUNT; i++)
      all[i] = symbol(NULL);
    for (int i = 1; i < COUNT; i++) {
      int k = direction ? COUNT - i : i;
      operate(TENON_DIM_EQUAL, all[k], all[k - 1]);
    }
    operate(TENON_DIM_EQUAL, all[COUNT / 2], known(3));
    CHECK(same(tn_extents_resolve(table, all[0]), known(3)) &&
          same(tn_extents_resolve(table, all[COUNT - 1]), known(3)));
    for (int i = 0; i < 200; i++)
      plus[i] = symbol(NULL);
    for (int i = 1; i < 200; i++) {
      int k = direction ? 200 - i : i;
      operate(TENON_DIM_EQUAL, plus[k], add(plus[k - 1], known(1)));
    }
    operate(TENON_DIM_EQUAL, plus[0], known(3));
    CHECK(same(tn_extents_resolve(table, plus[1]), known(4)));
  }
}

TEST("a symbol broadcast with a number is 1 or that number") {
  fresh_table();
  tenon_dim_t n = symbol("n");
  tenon_dim_t m = symbol("m");
  tenon_dim_t bound = operate(TENON_DIM_BOUND, known(9), known(2));
  CHECK(same(operate(TENON_DIM_BROADCAST, n, known(4)), known(4)) &&
        !tenon_is_known(tn_extents_resolve(table, n)));
  CHECK(same(operate(TENON_DIM_BROADCAST, known(4), n), known(4)) &&
        same(operate(TENON_DIM_BROADCAST, n, known(1)), n));
  CHECK(same(operate(TENON_DIM_TEST_EQUAL, n, known(5)), known(0)));
  CHECK_TEXT(refused(TENON_DIM_EQUAL, n, known(5)), "extents: n = 5 is impossible");
  CHECK(same(operate(TENON_DIM_BROADCAST, n, known(7)), known(7)) &&
        same(tn_extents_resolve(table, n), known(1)));
  CHECK(same(operate(TENON_DIM_BROADCAST, bound, known(7)), known(7)) &&
        same(tn_extents_resolve(table, bound), known(7)));
  operate(TENON_DIM_BROADCAST, m, known(3));
  tenon_dim_t k = symbol("k");
  operate(TENON_DIM_BROADCAST, k, known(5));
  CHECK(same(operate(TENON_DIM_EQUAL, m, k), known(1)) &&
        same(tn_extents_resolve(table, m), known(1)));
  tenon_dim_t p = symbol("p");
  tenon_dim_t q = operate(TENON_DIM_BOUND, known(-1), known(2));
  CHECK(same(operate(TENON_DIM_BROADCAST, p, q), q) && same(operate(TENON_DIM_BROADCAST, p, p), p));
  tenon_dim_t r = symbol("r");
  tenon_dim_t both = operate(TENON_DIM_BROADCAST, p, r);
  CHECK(same(operate(TENON_DIM_BROADCAST, r, p), both) &&
        same(operate(TENON_DIM_BROADCAST, both, p), both));
}

TEST("contradictory equalities fail and print both sides") {
  fresh_table();
  tenon_dim_t n = symbol("batch");
  CHECK_TEXT(refused(TENON_DIM_EQUAL, known(3), known(4)), "extents: 3 = 4 is impossible");
  CHECK_TEXT(refused(TENON_DIM_BROADCAST, known(3), known(4)),
             "extents: broadcast(3, 4) is impossible: extents must be equal, or one of them 1");
  CHECK_TEXT(refused(TENON_DIM_EQUAL, add(n, known(1)), n),
             "extents: batch+1 = batch is impossible");
  CHECK_TEXT(refused(TENON_DIM_EQUAL, n, known(-3)), "extents: batch = -3 is impossible");
  CHECK_TEXT(refused(TENON_DIM_EQUAL, mul(known(2), n), known(3)),
             "extents: 2*batch = 3 is impossible");
  CHECK_TEXT(refused(TENON_DIM_DIV, n, known(0)), "extents: batch/0 divides by 0");
  CHECK_TEXT(refused(TENON_DIM_CEIL_DIV, known(3), known(0)), "extents: ceil(3/0) divides by 0");
  CHECK_TEXT(refused(TENON_DIM_MOD, known(3), known(0)), "extents: 3%0 divides by 0");
  CHECK_TEXT(refused(TENON_DIM_MUL, known(INT64_MAX), known(2)),
             "extents: (9223372036854775807*2) overflows 64 bits");
  CHECK_TEXT(refused(TENON_DIM_ADD, known(INT64_MAX), known(1)), "overflows 64 bits");
  CHECK_TEXT(refused(TENON_DIM_SUB, known(TENON_DIM_LEAST), known(1)), "overflows 64 bits");
  CHECK_TEXT(refused(TENON_DIM_MUL, mul(n, known(INT64_MAX)), known(2)),
             "(9223372036854775807*batch*2) overflows 64 bits");
  CHECK_TEXT(refused(99, n, n), "unknown operation 99 on extents");
  CHECK_TEXT(refused(TENON_DIM_ADD, n, known(INT64_MIN + 1000000)),
             "is not a symbol of this graph");
  CHECK(prints(known(INT64_MIN + 1000000), "?") &&
        same(tn_extents_resolve(table, known(INT64_MIN + 1000000)), known(INT64_MIN + 1000000)));
}

TEST("expressions too large for a sum stay usable") {
  fresh_table();
  tenon_dim_t sum = known(0);
  tenon_dim_t product = known(1);
  tenon_dim_t square = known(1);
  tenon_dim_t deep = symbol("d");
  for (int i = 0; i < 40; i++) {
    char name[16];
    snprintf(name, sizeof name, "s%d", i);
    sum = add(sum, symbol(name));
    product = mul(product, symbol(name));
    square = mul(square, add(symbol(name), known(1)));
  }
  CHECK(!tenon_is_known(sum) && !tenon_is_known(product) && !tenon_is_known(square));
  for (int i = 0; i < 1000; i++) {
    tenon_dim_t next = operate(TENON_DIM_MAX, mul(deep, deep), symbol(i & 1 ? "a" : "b"));
    CHECK(same(next, operate(TENON_DIM_MAX, mul(deep, deep), symbol(i & 1 ? "a" : "b"))));
    deep = next;
  }
  tn_text_t text = {0};
  tn_extents_print(table, deep, &text);
  tn_extents_print(table, square, &text);
  CHECK(text.size < 4000);
  tn_text_clear(&text);
  for (int i = 0; i < 40; i++) {
    char name[16];
    snprintf(name, sizeof name, "s%d", i);
    operate(TENON_DIM_EQUAL, symbol(name), known(1));
  }
  CHECK(same(tn_extents_resolve(table, product), known(1)) &&
        same(tn_extents_resolve(table, sum), known(40)));
}

/* against plain integers */

static int64_t floor_of(int64_t a, int64_t b) {
  return a / b - ((a % b != 0) && ((a < 0) != (b < 0)));
}

/* The result in C's arithmetic; 0 if the operation is not defined for these operands. */
static int plain(uint32_t operation, int64_t a, int64_t b, int64_t *out) {
  switch (operation) {
  case TENON_DIM_ADD:
    *out = a + b;
    return 1;
  case TENON_DIM_SUB:
    *out = a - b;
    return 1;
  case TENON_DIM_MUL:
    *out = a * b;
    return a * b < 1000000 && a * b > -1000000;
  case TENON_DIM_DIV:
    return b ? (*out = floor_of(a, b), 1) : 0;
  case TENON_DIM_CEIL_DIV:
    return b ? (*out = -floor_of(-a, b), 1) : 0;
  case TENON_DIM_MOD:
    return b ? (*out = a - b * floor_of(a, b), 1) : 0;
  case TENON_DIM_MIN:
    *out = a < b ? a : b;
    return 1;
  case TENON_DIM_MAX:
    *out = a > b ? a : b;
    return 1;
  case TENON_DIM_BROADCAST:
    *out = a == 1 ? b : a;
    return (a == b || a == 1 || b == 1) && a >= 0 && b >= 0;
  case TENON_DIM_TEST_EQUAL:
    *out = a == b;
    return 1;
  case TENON_DIM_TEST_LESS:
    *out = a < b;
    return 1;
  default:
    return 0;
  }
}

TEST("symbolic results equal those of plain integers, whenever the symbols become known") {
  uint32_t state = 11;
  int compared = 0;
  for (int round = 0; round < 3000; round++) {
    enum {
      SYMBOLS = 4,
      STEPS = 14,
      ALL = SYMBOLS + STEPS,
    };
    tenon_dim_t dims[ALL];
    int64_t numbers[ALL];
    int count = SYMBOLS;
    int bound[SYMBOLS] = {0};
    fresh_table();
    for (int i = 0; i < SYMBOLS; i++) {
      dims[i] = symbol(i & 1 ? NULL : (const char *[]){"a", "b", "c", "d"}[i]);
      numbers[i] = texts_random(&state) % 7;
    }
    for (int step = 0; step < STEPS; step++) {
      static const uint32_t operations[] = {
          TENON_DIM_ADD,       TENON_DIM_SUB,        TENON_DIM_MUL,      TENON_DIM_DIV,
          TENON_DIM_CEIL_DIV,  TENON_DIM_MOD,        TENON_DIM_MIN,      TENON_DIM_MAX,
          TENON_DIM_BROADCAST, TENON_DIM_TEST_EQUAL, TENON_DIM_TEST_LESS};
      uint32_t operation =
          operations[texts_random(&state) % (sizeof operations / sizeof *operations)];
      uint32_t i = texts_random(&state) % (uint32_t)count;
      uint32_t k = texts_random(&state) % (uint32_t)count;
      tenon_dim_t right = dims[k];
      int64_t number = numbers[k];
      int64_t result;
      if (texts_random(&state) % 3 == 0) {
        number = (int64_t)(texts_random(&state) % 9) - 2;
        right = known(number);
      }
      /* A symbol becomes known in between. */
      if (texts_random(&state) % 8 == 0) {
        uint32_t which = texts_random(&state) % SYMBOLS;
        bound[which] = 1;
        operate(TENON_DIM_EQUAL, dims[which], known(numbers[which]));
      }
      if (!plain(operation, numbers[i], number, &result)) continue;
      dims[count] = operate(operation, dims[i], right);
      numbers[count++] = result;
    }
    for (int i = 0; i < SYMBOLS; i++)
      if (!bound[i]) operate(TENON_DIM_EQUAL, dims[i], known(numbers[i]));
    for (int i = 0; i < count; i++) {
      tenon_dim_t now = tn_extents_resolve(table, dims[i]);
      compared++;
      if (CHECK(now.value == numbers[i])) continue;
      tn_text_t text = {0};
      tn_extents_print(table, dims[i], &text);
      fprintf(stderr, "  round %d, dim %d: %s is not %lld\n", round, i, tn_text_get(&text),
              (long long)numbers[i]);
      tn_text_clear(&text);
      return;
    }
  }
  CHECK(compared > 30000);
}

static tenon_status_t work(void) {
  tn_extents_t *extents;
  tenon_dim_t n, m, x, y;
  TN_TRY(tn_extents_create(&extents));
  tenon_status_t status = tn_extents_symbol(extents, "n", &n);
  if (status == TENON_OK) status = tn_extents_symbol(extents, NULL, &m);
  if (status == TENON_OK) status = tn_extents_operate(extents, TENON_DIM_MUL, n, m, &x);
  if (status == TENON_OK) status = tn_extents_operate(extents, TENON_DIM_MAX, x, n, &y);
  for (int i = 0; i < 40 && status == TENON_OK; i++)
    status = tn_extents_operate(extents, TENON_DIM_BOUND, y, n, &x);
  if (status == TENON_OK) status = tn_extents_operate(extents, TENON_DIM_EQUAL, x, n, &x);
  if (status == TENON_OK) status = tn_extents_operate(extents, TENON_DIM_BROADCAST, y, m, &x);
  tn_extents_release(extents);
  return status;
}

TEST("extents survive the failure of each allocation") {
  for (int sticky = 0; sticky < 2; sticky++)
    for (int64_t n = 1; n < 1000; n++) {
      fault_memory(n, sticky);
      tenon_status_t status = work();
      fault_end();
      if (status == TENON_OK && n > 20) break;
      if (status != TENON_OK && !CHECK_STATUS(status, TENON_MEMORY)) break;
    }
}

TEST("releasing NULL is allowed, and everything is freed") {
  tn_extents_release(NULL);
  tn_extents_release(table);
  table = NULL;
}
