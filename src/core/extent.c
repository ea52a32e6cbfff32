/* Symbolic extents: a table of sums (core/sum.h) over atoms. An atom is a symbol, or an operation
 * that no sum can express. Called by shape inference through host->dim. Invariants: equal sums have
 * one index; an atom that is bound (to a number or to another sum) never occurs in the sum that it
 * is bound to; the operands of atoms nest at most DEPTH_MAX levels, so every recursion here is
 * bounded. */
#include "core/extent.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/map.h"
#include "base/memory.h"
#include "base/status.h"
#include "core/sum.h"

enum {
  DEPTH_MAX = 16,
  NESTING_MAX = 24,
  PRINTED_MAX = 400,
};
enum { SYMBOL = 64 }; /* kind of an atom that is not an operation of op.h */
enum { NOT_EITHER = -1 };

typedef struct range_t {
  int64_t low;
  int64_t high; /* INT64_MIN and INT64_MAX mean no limit */
} range_t;

typedef struct atom_t {
  uint8_t kind; /* SYMBOL or an operation */
  uint32_t number;
  uint32_t depth;
  uint32_t mark;
  /* SYMBOL: its name; NULL for a fresh symbol, which is printed by its serial number */
  const char *name;
  uint32_t serial;
  tenon_dim_t a; /* first operand of an operation; BOUND: upper limit of the symbol, or -1 */
  tenon_dim_t b; /* second operand of an operation */
  range_t range;
  int64_t either; /* the atom is either 1 or this number; NOT_EITHER: nothing is known */
  bool is_bound;
  bool is_found; /* made by BOUND */
  tenon_dim_t bound;
} atom_t;

typedef struct entry_t {
  /* the sum: for each term its coefficient, its number of factors, and the factors */
  const int64_t *words;
  uint32_t word_count;
  uint32_t index;
  uint32_t depth;
  uint64_t generation; /* `resolved` is valid while this equals the table's generation */
  tenon_dim_t resolved;
} entry_t;

struct tn_extents_t {
  tn_arena_t arena;
  tn_map_t sums;  /* entries by the words of the sum */
  tn_map_t atoms; /* operations by kind and operands */
  tn_map_t names; /* symbols by name */
  entry_t **entries;
  atom_t **atom_list;
  size_t entry_capacity;
  size_t entry_count;
  size_t atom_capacity;
  size_t atom_count;
  uint64_t generation; /* number of bindings so far */
  uint32_t serial;
  uint32_t mark;
  uint32_t nesting;
};

enum { WORDS_MAX = TN_TERMS_MAX * (2 + TN_FACTORS_MAX) };

static tenon_status_t fail_extent_memory(void) { return tn_no_memory("an extent", sizeof(atom_t)); }

tenon_status_t tn_extents_create(tn_extents_t **out_extents) {
  *out_extents = tn_allocate_zero(1, sizeof **out_extents);
  return *out_extents ? TENON_OK : tn_no_memory("a table of extents", sizeof **out_extents);
}

void tn_extents_release(tn_extents_t *extents) {
  if (!extents) return;
  tn_map_clear(&extents->sums);
  tn_map_clear(&extents->atoms);
  tn_map_clear(&extents->names);
  tn_release_memory(extents->entries);
  tn_release_memory(extents->atom_list);
  tn_arena_clear(&extents->arena);
  tn_release_memory(extents);
}

/* the table */

/* The entry of a symbolic extent. NULL for a number or for a symbol of no table. */
static entry_t *entry_of(const tn_extents_t *extents, tenon_dim_t dim) {
  uint64_t index = (uint64_t)dim.value - (uint64_t)INT64_MIN;
  return !tenon_is_known(dim) && index < extents->entry_count ? extents->entries[index] : NULL;
}

static uint32_t depth_of(const tn_extents_t *extents, tenon_dim_t dim) {
  const entry_t *entry = entry_of(extents, dim);
  return entry ? entry->depth : 0;
}

static void read_sum(const tn_extents_t *extents, tenon_dim_t dim, tn_sum_t *out) {
  const entry_t *entry = entry_of(extents, dim);
  if (!entry) {
    tn_sum_constant(out, dim.value);
    return;
  }
  out->count = 0;
  for (uint32_t i = 0; i < entry->word_count;) {
    tn_term_t *term = &out->terms[out->count++];
    term->coefficient = entry->words[i++];
    term->count = (uint32_t)entry->words[i++];
    for (uint32_t k = 0; k < term->count; k++)
      term->factors[k] = (uint32_t)entry->words[i++];
  }
}

/* Finds or creates the extent for a sum. Equal sums give the same extent. */
static tenon_status_t intern_sum(tn_extents_t *extents, const tn_sum_t *sum, tenon_dim_t *out) {
  int64_t words[WORDS_MAX], number;
  uint32_t count = 0;
  uint32_t depth = 0;
  if (tn_sum_is_constant(sum, &number)) {
    if (number < TENON_DIM_LEAST)
      return tn_fail(TENON_INVALID, "an extent of %" PRId64 " is below -2^62", number);
    *out = tenon_extent(number);
    return TENON_OK;
  }
  for (uint32_t i = 0; i < sum->count; i++) {
    words[count++] = sum->terms[i].coefficient;
    words[count++] = sum->terms[i].count;
    for (uint32_t k = 0; k < sum->terms[i].count; k++) {
      words[count++] = sum->terms[i].factors[k];
      uint32_t deep = extents->atom_list[sum->terms[i].factors[k]]->depth;
      if (deep > depth) depth = deep;
    }
  }
  size_t size = count * sizeof *words;
  entry_t *entry = tn_map_get(&extents->sums, (const char *)words, size);
  if (!entry) {
    entry = tn_arena_allocate(&extents->arena, sizeof *entry);
    int64_t *copy = tn_arena_allocate(&extents->arena, size);
    if (!entry || !copy || extents->entry_count >= UINT32_MAX ||
        !tn_grow((void **)&extents->entries, &extents->entry_capacity, extents->entry_count,
                 sizeof(entry_t *)) ||
        !tn_map_put(&extents->sums, (const char *)words, size, entry))
      return fail_extent_memory();
    memcpy(copy, words, size);
    entry->words = copy;
    entry->word_count = count;
    entry->index = (uint32_t)extents->entry_count;
    entry->depth = depth;
    entry->generation = UINT64_MAX;
    extents->entries[extents->entry_count++] = entry;
  }
  *out = tenon_extent(INT64_MIN + (int64_t)entry->index);
  return TENON_OK;
}

/* The atom of an extent that consists of one atom, otherwise NULL. */
static atom_t *atom_of(const tn_extents_t *extents, tenon_dim_t dim) {
  const entry_t *entry = entry_of(extents, dim);
  bool is_atom = entry && entry->word_count == 3 && entry->words[0] == 1;
  return is_atom ? extents->atom_list[entry->words[2]] : NULL;
}

static tenon_status_t intern_atom(tn_extents_t *extents, const atom_t *atom, tenon_dim_t *out) {
  tn_sum_t sum;
  tn_sum_atom(&sum, atom->number);
  return intern_sum(extents, &sum, out);
}

/* Creates an atom: a named symbol, a fresh symbol (name NULL), or an operation. The caller keeps
 * `name` in the arena. */
static tenon_status_t make_atom(tn_extents_t *extents, uint8_t kind, const char *name,
                                range_t range, atom_t **out) {
  atom_t *atom = tn_arena_allocate(&extents->arena, sizeof *atom);
  if (!atom || extents->atom_count >= UINT32_MAX ||
      !tn_grow((void **)&extents->atom_list, &extents->atom_capacity, extents->atom_count,
               sizeof(atom_t *)))
    return fail_extent_memory();
  *atom = (atom_t){.kind = kind,
                   .number = (uint32_t)extents->atom_count,
                   .depth = 1,
                   .name = name,
                   .a = {-1},
                   .range = range,
                   .either = NOT_EITHER};
  if (kind == SYMBOL && !name) atom->serial = extents->serial++;
  extents->atom_list[extents->atom_count++] = atom;
  *out = atom;
  return TENON_OK;
}

tenon_status_t tn_extents_symbol(tn_extents_t *extents, const char *name, tenon_dim_t *out_dim) {
  range_t extent = {0, INT64_MAX};
  size_t size = name ? strlen(name) : 0;
  atom_t *atom = size ? tn_map_get(&extents->names, name, size) : NULL;
  if (!atom) {
    const char *copy = size ? tn_arena_text(&extents->arena, name, size) : NULL;
    if (size && !copy) return fail_extent_memory();
    TN_TRY(make_atom(extents, SYMBOL, copy, extent, &atom));
    if (size && !tn_map_put(&extents->names, name, size, atom)) return fail_extent_memory();
  }
  return intern_atom(extents, atom, out_dim);
}

/* ranges */

static bool is_endless(int64_t value) { return value == INT64_MIN || value == INT64_MAX; }

static int64_t add_saturated(int64_t a, int64_t b) {
  int64_t sum;
  if (is_endless(a)) return a;
  if (is_endless(b)) return b;
  if (__builtin_add_overflow(a, b, &sum)) return a < 0 ? INT64_MIN : INT64_MAX;
  return sum;
}

static int64_t multiply_saturated(int64_t a, int64_t b) {
  int64_t product;
  if (!a || !b) return 0;
  if (is_endless(a) || is_endless(b) || __builtin_mul_overflow(a, b, &product))
    return (a < 0) != (b < 0) ? INT64_MIN : INT64_MAX;
  return product;
}

static int64_t smaller_of(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t larger_of(int64_t a, int64_t b) { return a > b ? a : b; }

static range_t range_of(const tn_extents_t *extents, const tn_sum_t *sum) {
  range_t total = {0, 0};
  for (uint32_t i = 0; i < sum->count; i++) {
    const tn_term_t *term = &sum->terms[i];
    range_t part = {term->coefficient, term->coefficient};
    for (uint32_t k = 0; k < term->count; k++) {
      range_t r = extents->atom_list[term->factors[k]]->range;
      int64_t p = multiply_saturated(part.low, r.low);
      int64_t q = multiply_saturated(part.low, r.high);
      int64_t s = multiply_saturated(part.high, r.low);
      int64_t t = multiply_saturated(part.high, r.high);
      part = (range_t){smaller_of(smaller_of(p, q), smaller_of(s, t)),
                       larger_of(larger_of(p, q), larger_of(s, t))};
    }
    total = (range_t){add_saturated(total.low, part.low), add_saturated(total.high, part.high)};
  }
  return total;
}

static range_t range_of_dim(const tn_extents_t *extents, tenon_dim_t dim) {
  tn_sum_t sum;
  read_sum(extents, dim, &sum);
  return range_of(extents, &sum);
}

/* failures */

static const struct {
  const char *before;
  const char *between;
  const char *after;
} forms[] = {[TENON_DIM_ADD] = {"(", "+", ")"},
             [TENON_DIM_SUB] = {"(", "-", ")"},
             [TENON_DIM_MUL] = {"(", "*", ")"},
             [TENON_DIM_DIV] = {"", "/", ""},
             [TENON_DIM_CEIL_DIV] = {"ceil(", "/", ")"},
             [TENON_DIM_MOD] = {"", "%", ""},
             [TENON_DIM_MIN] = {"min(", ", ", ")"},
             [TENON_DIM_MAX] = {"max(", ", ", ")"},
             [TENON_DIM_BROADCAST] = {"broadcast(", ", ", ")"},
             [TENON_DIM_BOUND] = {"bound(", ", ", ")"},
             [TENON_DIM_EQUAL] = {"", " = ", ""},
             [TENON_DIM_TEST_EQUAL] = {"(", "==", ")"},
             [TENON_DIM_TEST_LESS] = {"(", "<", ")"}};
enum { OPERATIONS = sizeof forms / sizeof *forms };

static tenon_status_t fail_operation(tn_extents_t *extents, uint32_t operation, tenon_dim_t a,
                                     tenon_dim_t b, const char *reason) {
  tn_text_t text = {0};
  tn_text_add(&text, "extents: %s", forms[operation].before);
  tn_extents_print(extents, a, &text);
  tn_text_add(&text, "%s", forms[operation].between);
  tn_extents_print(extents, b, &text);
  tn_text_add(&text, "%s %s", forms[operation].after, reason);
  tn_fail(TENON_INVALID, "%s", tn_text_get(&text));
  tn_text_clear(&text);
  return TENON_INVALID;
}

/* consequences of equalities */

static tenon_status_t apply_operation(tn_extents_t *extents, uint32_t operation, tenon_dim_t a,
                                      tenon_dim_t b, tenon_dim_t *out);

/* Writes the current value of an atom as a sum. */
static void resolve_atom(tn_extents_t *extents, atom_t *atom, tn_sum_t *out) {
  tenon_dim_t now;
  tn_sum_atom(out, atom->number);
  if (atom->is_bound) {
    read_sum(extents, tn_extents_resolve(extents, atom->bound), out);
  } else if (atom->kind != SYMBOL) {
    tenon_dim_t a = tn_extents_resolve(extents, atom->a);
    tenon_dim_t b = tn_extents_resolve(extents, atom->b);
    if (a.value == atom->a.value && b.value == atom->b.value) return;
    if (apply_operation(extents, atom->kind, a, b, &now) == TENON_OK) read_sum(extents, now, out);
  }
}

static bool resolve_sum(tn_extents_t *extents, const tn_sum_t *sum, tn_sum_t *out) {
  tn_sum_t factor, product, next;
  out->count = 0;
  for (uint32_t i = 0; i < sum->count; i++) {
    tn_sum_constant(&product, sum->terms[i].coefficient);
    for (uint32_t k = 0; k < sum->terms[i].count; k++) {
      resolve_atom(extents, extents->atom_list[sum->terms[i].factors[k]], &factor);
      if (tn_sum_multiply(&product, &factor, &next) != TN_SUM_OK) return false;
      product = next;
    }
    if (tn_sum_add(out, &product, 1, &next) != TN_SUM_OK) return false;
    *out = next;
  }
  return true;
}

tenon_dim_t tn_extents_resolve(tn_extents_t *extents, tenon_dim_t dim) {
  for (atom_t *atom; (atom = atom_of(extents, dim)) && atom->is_bound;)
    dim = atom->bound; /* loop, because chains can be long */
  entry_t *entry = entry_of(extents, dim);
  if (!entry || extents->nesting >= NESTING_MAX || extents->generation == 0) return dim;
  if (entry->generation == extents->generation) return entry->resolved;
  tn_sum_t sum, now;
  uint64_t generation = extents->generation;
  entry->resolved = dim;
  entry->generation = generation;
  extents->nesting++;
  read_sum(extents, dim, &sum);
  tenon_dim_t resolved = dim;
  if (!resolve_sum(extents, &sum, &now) || intern_sum(extents, &now, &resolved) != TENON_OK)
    resolved = dim;
  extents->nesting--;
  entry->resolved = resolved;
  return resolved;
}

/* Whether the atom occurs in the extent. Also true if the extent is too deep to search. */
static bool occurs_in(tn_extents_t *extents, const atom_t *atom, tenon_dim_t dim, int depth) {
  const entry_t *entry = entry_of(extents, dim);
  if (depth > 4 * DEPTH_MAX) return true;
  for (uint32_t i = 0; entry && i < entry->word_count; i += 2 + (uint32_t)entry->words[i + 1])
    for (uint32_t k = 0; k < (uint32_t)entry->words[i + 1]; k++) {
      atom_t *other = extents->atom_list[entry->words[i + 2 + k]];
      if (other == atom) return true;
      if (other->mark == extents->mark) continue;
      other->mark = extents->mark;
      if (other->is_bound && occurs_in(extents, atom, other->bound, depth + 1)) return true;
      if (other->is_bound || other->kind == SYMBOL) continue;
      if (occurs_in(extents, atom, other->a, depth + 1) ||
          occurs_in(extents, atom, other->b, depth + 1))
        return true;
    }
  return false;
}

/* Binds the atom to an extent that it equals. Returns false without a message if that is
 * impossible. */
static bool bind_atom(tn_extents_t *extents, atom_t *atom, tenon_dim_t to) {
  range_t range = range_of_dim(extents, to);
  if (range.high < atom->range.low || range.low > atom->range.high) return false;
  if (tenon_is_known(to) && atom->either != NOT_EITHER && to.value != 1 && to.value != atom->either)
    return false;
  atom_t *other = atom_of(extents, to);
  if (other) {
    other->range.low = larger_of(other->range.low, atom->range.low);
    other->range.high = smaller_of(other->range.high, atom->range.high);
    bool both =
        other->either != NOT_EITHER && atom->either != NOT_EITHER && other->either != atom->either;
    if (other->either == NOT_EITHER) other->either = atom->either;
    if (both && !other->is_bound && !bind_atom(extents, other, tenon_extent(1))) return false;
  }
  atom->is_bound = true;
  atom->bound = to;
  extents->generation++;
  return true;
}

/* Priority for replacing an atom by an equal extent; higher is better. */
static int binding_priority(const atom_t *atom) {
  if (atom->kind != SYMBOL) return 1;
  return atom->name ? 2 : 3;
}

/* Solves difference = 0 for one atom and binds the atom. *out_possible is false if there is no
 * solution. */
static tenon_status_t solve_for_atom(tn_extents_t *extents, const tn_sum_t *difference,
                                     bool *out_possible) {
  tn_sum_t sum = *difference;
  tn_sum_t rest;
  int64_t common = tn_sum_common(&sum);
  int64_t constant;
  *out_possible = true;
  if (tn_sum_is_constant(&sum, &constant)) {
    *out_possible = constant == 0;
    return TENON_OK;
  }
  for (uint32_t i = 0; i < sum.count; i++) {
    if (sum.terms[i].coefficient % common != 0) {
      /* for example 2n = 3 */
      *out_possible = false;
      return TENON_OK;
    }
    sum.terms[i].coefficient /= common;
  }
  range_t range = range_of(extents, &sum);
  if (range.low > 0 || range.high < 0) {
    *out_possible = false;
    return TENON_OK;
  }
  atom_t *best = NULL;
  tenon_dim_t best_to = {0};
  for (uint32_t i = 0; i < sum.count; i++) {
    const tn_term_t *term = &sum.terms[i];
    if (term->count != 1 || (term->coefficient != 1 && term->coefficient != -1)) continue;
    atom_t *atom = extents->atom_list[term->factors[0]];
    bool is_better =
        !best || binding_priority(atom) > binding_priority(best) ||
        (binding_priority(atom) == binding_priority(best) && atom->number > best->number);
    if (!is_better) continue;
    tn_sum_t alone = {1, {*term}};
    tn_sum_t zero = {0};
    tenon_dim_t to;
    if (tn_sum_add(&sum, &alone, -1, &rest) != TN_SUM_OK) continue;
    if (tn_sum_add(&zero, &rest, -term->coefficient, &alone) != TN_SUM_OK) continue;
    tenon_status_t status = intern_sum(extents, &alone, &to);
    if (status == TENON_MEMORY) return status;
    extents->mark++;
    if (status == TENON_OK && !occurs_in(extents, atom, to, 0)) {
      best = atom;
      best_to = to;
    }
  }
  if (best) *out_possible = bind_atom(extents, best, best_to);
  return TENON_OK;
}

static tenon_status_t apply_equal(tn_extents_t *extents, tenon_dim_t a, tenon_dim_t b,
                                  tenon_dim_t *out) {
  tn_sum_t left, right, difference;
  bool is_possible = true;
  read_sum(extents, a, &left);
  read_sum(extents, b, &right);
  if (tn_sum_add(&left, &right, -1, &difference) == TN_SUM_OK)
    TN_TRY(solve_for_atom(extents, &difference, &is_possible));
  if (!is_possible) return fail_operation(extents, TENON_DIM_EQUAL, a, b, "is impossible");
  a = tn_extents_resolve(extents, a);
  b = tn_extents_resolve(extents, b);
  *out = tenon_is_known(b) ? b : a;
  return TENON_OK;
}

/* operations */

/* An operation that no sum can express becomes an atom. Equal operands give the same atom. */
static tenon_status_t intern_operation(tn_extents_t *extents, uint32_t operation, tenon_dim_t a,
                                       tenon_dim_t b, range_t range, tenon_dim_t *out) {
  int64_t key[3] = {(int64_t)operation, a.value, b.value};
  atom_t *atom = tn_map_get(&extents->atoms, (const char *)key, sizeof key);
  if (!atom) {
    uint32_t depth = 1 + (uint32_t)larger_of(depth_of(extents, a), depth_of(extents, b));
    bool is_deep = depth > DEPTH_MAX; /* too deep: keep only the range */
    TN_TRY(make_atom(extents, is_deep ? SYMBOL : (uint8_t)operation, NULL, range, &atom));
    if (!is_deep) {
      atom->a = a;
      atom->b = b;
      atom->depth = depth;
    }
    if (!tn_map_put(&extents->atoms, (const char *)key, sizeof key, atom))
      return fail_extent_memory();
  }
  return intern_atom(extents, atom, out);
}

static tenon_status_t apply_arithmetic(tn_extents_t *extents, uint32_t operation, tenon_dim_t a,
                                       tenon_dim_t b, tenon_dim_t *out) {
  tn_sum_t left, right, sum;
  range_t any = {INT64_MIN, INT64_MAX};
  read_sum(extents, a, &left);
  read_sum(extents, b, &right);
  tn_sum_result_t result;
  if (operation == TENON_DIM_MUL)
    result = tn_sum_multiply(&left, &right, &sum);
  else
    result = tn_sum_add(&left, &right, operation == TENON_DIM_ADD ? 1 : -1, &sum);
  if (result == TN_SUM_OVERFLOW)
    return fail_operation(extents, operation, a, b, "overflows 64 bits");
  if (result == TN_SUM_LARGE) return intern_operation(extents, operation, a, b, any, out);
  tenon_status_t status = intern_sum(extents, &sum, out);
  return status == TENON_INVALID ? fail_operation(extents, operation, a, b, "overflows 64 bits")
                                 : status;
}

/* floor(a / divisor) for divisor > 0. The part that divides exactly is separated, and the remaining
 * fraction is reduced. */
static tenon_status_t divide_by_number(tn_extents_t *extents, tenon_dim_t a, int64_t divisor,
                                       tenon_dim_t *out) {
  tn_sum_t sum, whole, rest;
  int64_t number;
  tenon_dim_t parts[2];
  read_sum(extents, a, &sum);
  tn_sum_split(&sum, divisor, &whole, &rest);
  if (tn_sum_is_constant(&rest, &number))
    return intern_sum(extents, &whole, out); /* the remaining number divided by `divisor` is 0 */
  int64_t common = tn_gcd(tn_sum_common(&rest), divisor);
  for (uint32_t i = 0; i < rest.count; i++)
    rest.terms[i].coefficient /= common; /* also the constant term, rounding down */
  if (rest.terms[rest.count - 1].coefficient == 0) rest.count--;
  TN_TRY(intern_sum(extents, &whole, &parts[0]));
  TN_TRY(intern_sum(extents, &rest, &parts[1]));
  if (divisor != common) {
    range_t range = range_of(extents, &rest);
    divisor /= common;
    range.low = is_endless(range.low) ? range.low : tn_floor_div(range.low, divisor);
    range.high = is_endless(range.high) ? range.high : tn_floor_div(range.high, divisor);
    TN_TRY(intern_operation(extents, TENON_DIM_DIV, parts[1], tenon_extent(divisor), range,
                            &parts[1]));
  }
  return apply_arithmetic(extents, TENON_DIM_ADD, parts[0], parts[1], out);
}

static tenon_status_t apply_division(tn_extents_t *extents, uint32_t operation, tenon_dim_t a,
                                     tenon_dim_t b, tenon_dim_t *out) {
  tn_sum_t left, right, quotient;
  range_t any = {INT64_MIN, INT64_MAX};
  if (b.value == 0) return fail_operation(extents, operation, a, b, "divides by 0");
  read_sum(extents, a, &left);
  read_sum(extents, b, &right);
  if (tn_sum_divide(&left, &right, &quotient)) {
    if (operation != TENON_DIM_MOD) return intern_sum(extents, &quotient, out);
    *out = tenon_extent(0);
    return TENON_OK;
  }
  if (tenon_is_known(b) && b.value < 0) { /* a / -b = -a / b, a mod -b = -(-a mod b) */
    TN_TRY(apply_arithmetic(extents, TENON_DIM_SUB, tenon_extent(0), a, &a));
    TN_TRY(apply_arithmetic(extents, TENON_DIM_SUB, tenon_extent(0), b, &b));
    TN_TRY(apply_division(extents, operation, a, b, out));
    return operation == TENON_DIM_MOD
               ? apply_arithmetic(extents, TENON_DIM_SUB, tenon_extent(0), *out, out)
               : TENON_OK;
  }
  if (!tenon_is_known(b)) {
    range_t range = range_of(extents, &left);
    range_t by = range_of(extents, &right);
    if (operation != TENON_DIM_MOD && range.low >= 0 && by.low >= 0) any = (range_t){0, range.high};
    if (operation == TENON_DIM_MOD && by.low >= 0) any = (range_t){0, add_saturated(by.high, -1)};
    return intern_operation(extents, operation, a, b, any, out);
  }
  if (operation == TENON_DIM_MOD) {
    tn_sum_t rest;
    tn_sum_split(&left, b.value, &quotient, &rest);
    TN_TRY(intern_sum(extents, &rest, &a));
    if (tenon_is_known(a)) {
      *out = a;
      return TENON_OK;
    }
    return intern_operation(extents, operation, a, b, (range_t){0, b.value - 1}, out);
  }
  /* ceil(a / b) = floor((a + b - 1) / b) */
  if (operation == TENON_DIM_CEIL_DIV)
    TN_TRY(apply_arithmetic(extents, TENON_DIM_ADD, a, tenon_extent(b.value - 1), &a));
  return divide_by_number(extents, a, b.value, out);
}

static bool has_operand(const tn_extents_t *extents, uint32_t operation, tenon_dim_t in,
                        tenon_dim_t operand) {
  const atom_t *atom = atom_of(extents, in);
  return atom && atom->kind == operation &&
         (atom->a.value == operand.value || atom->b.value == operand.value);
}

/* The same for a commutative operation: the operands are sorted first. */
static tenon_status_t intern_sorted(tn_extents_t *extents, uint32_t operation, tenon_dim_t a,
                                    tenon_dim_t b, range_t range, tenon_dim_t *out) {
  if (a.value <= b.value) return intern_operation(extents, operation, a, b, range, out);
  return intern_operation(extents, operation, b, a, range, out);
}

/* MIN, MAX or BROADCAST that cannot be decided becomes an atom. */
static tenon_status_t intern_choice(tn_extents_t *extents, uint32_t operation, tenon_dim_t a,
                                    tenon_dim_t b, tenon_dim_t *out) {
  range_t p = range_of_dim(extents, a);
  range_t q = range_of_dim(extents, b);
  range_t range = {smaller_of(p.low, q.low), larger_of(p.high, q.high)};
  if (operation == TENON_DIM_MAX) range.low = larger_of(p.low, q.low);
  if (operation == TENON_DIM_MIN) range.high = smaller_of(p.high, q.high);
  if (has_operand(extents, operation, a, b)) {
    /* for example max(max(a, x), a) */
    *out = a;
    return TENON_OK;
  }
  if (has_operand(extents, operation, b, a)) {
    *out = b;
    return TENON_OK;
  }
  return intern_sorted(extents, operation, a, b, range, out);
}

/* The known range of a - b. */
static range_t difference_of(const tn_extents_t *extents, tenon_dim_t a, tenon_dim_t b) {
  tn_sum_t left, right, difference;
  read_sum(extents, a, &left);
  read_sum(extents, b, &right);
  if (tn_sum_add(&left, &right, -1, &difference) != TN_SUM_OK)
    return (range_t){INT64_MIN, INT64_MAX};
  return range_of(extents, &difference);
}

static tenon_status_t apply_min_max(tn_extents_t *extents, uint32_t operation, tenon_dim_t a,
                                    tenon_dim_t b, tenon_dim_t *out) {
  range_t d = difference_of(extents, a, b);
  bool is_max = operation == TENON_DIM_MAX;
  if (d.low >= 0) {
    *out = is_max ? a : b;
    return TENON_OK;
  }
  if (d.high <= 0) {
    *out = is_max ? b : a;
    return TENON_OK;
  }
  return intern_choice(extents, operation, a, b, out);
}

/* Broadcasts a symbol with a number other than 1. The symbol must be 1 or the number, and the
 * result is the number. */
static tenon_status_t broadcast_with_number(tn_extents_t *extents, tenon_dim_t a, int64_t number,
                                            tenon_dim_t *out) {
  range_t range = range_of_dim(extents, a);
  atom_t *atom = atom_of(extents, a);
  bool may_be_one = range.low <= 1 && range.high >= 1;
  bool may_be_it = range.low <= number && range.high >= number;
  tenon_dim_t ignored;
  *out = tenon_extent(number);
  if (atom && atom->either != NOT_EITHER && atom->either != number) may_be_it = false;
  if (!may_be_one && !may_be_it)
    return fail_operation(extents, TENON_DIM_BROADCAST, a, *out, "is impossible");
  if (!may_be_one) return apply_equal(extents, a, *out, &ignored);
  if (!may_be_it) return apply_equal(extents, a, tenon_extent(1), &ignored);
  if (atom) atom->either = number;
  return TENON_OK;
}

static tenon_status_t apply_broadcast(tn_extents_t *extents, tenon_dim_t a, tenon_dim_t b,
                                      tenon_dim_t *out) {
  if (a.value == b.value || b.value == 1) {
    *out = a;
    return TENON_OK;
  }
  if (a.value == 1) {
    *out = b;
    return TENON_OK;
  }
  if (tenon_is_known(a) && tenon_is_known(b))
    return fail_operation(extents, TENON_DIM_BROADCAST, a, b,
                          "is impossible: extents must be equal, or one of them 1");
  if (tenon_is_known(b)) return broadcast_with_number(extents, a, b.value, out);
  if (tenon_is_known(a)) return broadcast_with_number(extents, b, a.value, out);
  bool is_a = range_of_dim(extents, a).low > 1;
  bool is_b = range_of_dim(extents, b).low > 1;
  if (is_a && is_b) return apply_equal(extents, a, b, out);
  if (is_a || is_b) {
    *out = is_a ? a : b;
    return TENON_OK;
  }
  return intern_choice(extents, TENON_DIM_BROADCAST, a, b, out);
}

static tenon_status_t apply_test(tn_extents_t *extents, uint32_t operation, tenon_dim_t a,
                                 tenon_dim_t b, tenon_dim_t *out) {
  range_t d = difference_of(extents, a, b);
  range_t truth = {0, 1};
  if (operation == TENON_DIM_TEST_LESS) {
    if (d.high < 0) {
      *out = tenon_extent(1);
      return TENON_OK;
    }
    if (d.low >= 0) {
      *out = tenon_extent(0);
      return TENON_OK;
    }
    return intern_operation(extents, operation, a, b, truth, out);
  }
  const atom_t *atom = atom_of(extents, tenon_is_known(a) ? b : a);
  tenon_dim_t number = tenon_is_known(a) ? a : b;
  bool is_neither = atom && tenon_is_known(number) && atom->either != NOT_EITHER &&
                    number.value != 1 && number.value != atom->either;
  if (a.value == b.value) {
    *out = tenon_extent(1);
    return TENON_OK;
  }
  if (d.low > 0 || d.high < 0 || is_neither) {
    *out = tenon_extent(0);
    return TENON_OK;
  }
  return intern_sorted(extents, operation, a, b, truth, out);
}

/* A new extent, at most `a` (-1: no limit) and at least `b`. */
static tenon_status_t apply_bound(tn_extents_t *extents, tenon_dim_t a, tenon_dim_t b,
                                  tenon_dim_t *out) {
  atom_t *atom;
  range_t range = {range_of_dim(extents, b).low,
                   a.value == -1 ? INT64_MAX : range_of_dim(extents, a).high};
  if (a.value < -1 && tenon_is_known(a))
    return fail_operation(extents, TENON_DIM_BOUND, a, b, "has a negative limit");
  if (range.low < 0) range.low = 0;
  if (range.low > range.high)
    return fail_operation(extents, TENON_DIM_BOUND, a, b, "leaves no possible value");
  if (range.low == range.high) {
    *out = tenon_extent(range.low);
    return TENON_OK;
  }
  TN_TRY(make_atom(extents, SYMBOL, NULL, range, &atom));
  atom->a = a;
  atom->is_found = true;
  return intern_atom(extents, atom, out);
}

/* Applies an operation to resolved operands. */
static tenon_status_t apply_operation(tn_extents_t *extents, uint32_t operation, tenon_dim_t a,
                                      tenon_dim_t b, tenon_dim_t *out) {
  switch (operation) {
  case TENON_DIM_ADD:
  case TENON_DIM_SUB:
  case TENON_DIM_MUL:
    return apply_arithmetic(extents, operation, a, b, out);
  case TENON_DIM_DIV:
  case TENON_DIM_CEIL_DIV:
  case TENON_DIM_MOD:
    return apply_division(extents, operation, a, b, out);
  case TENON_DIM_MIN:
  case TENON_DIM_MAX:
    return apply_min_max(extents, operation, a, b, out);
  case TENON_DIM_BROADCAST:
    return apply_broadcast(extents, a, b, out);
  case TENON_DIM_BOUND:
    return apply_bound(extents, a, b, out);
  case TENON_DIM_EQUAL:
    return apply_equal(extents, a, b, out);
  default:
    return apply_test(extents, operation, a, b, out);
  }
}

tenon_status_t tn_extents_operate(tn_extents_t *extents, uint32_t operation, tenon_dim_t a,
                                  tenon_dim_t b, tenon_dim_t *out_dim) {
  if (operation >= OPERATIONS)
    return tn_fail(TENON_INVALID, "unknown operation %u on extents", operation);
  const tenon_dim_t operands[] = {a, b};
  for (int i = 0; i < 2; i++)
    if (!tenon_is_known(operands[i]) && !entry_of(extents, operands[i]))
      return tn_fail(TENON_INVALID, "extents: %" PRId64 " is not a symbol of this graph",
                     operands[i].value);
  a = tn_extents_resolve(extents, a);
  b = tn_extents_resolve(extents, b);
  tenon_status_t status = apply_operation(extents, operation, a, b, out_dim);
  if (status == TENON_OK) *out_dim = tn_extents_resolve(extents, *out_dim);
  return status;
}

/* decomposition */

static tenon_status_t atom_part(tn_extents_t *extents, const atom_t *atom, tn_extent_part_t *out) {
  if (atom->kind == SYMBOL && !atom->is_found) {
    out->kind = TENON_PART_SYMBOL;
    return intern_atom(extents, atom, &out->a);
  }
  out->kind = atom->kind == SYMBOL ? TENON_PART_FOUND : TENON_PART_OPERATION;
  out->operation = atom->is_found ? TENON_DIM_BOUND : atom->kind;
  out->a = atom->a;
  out->b = atom->is_found ? tenon_extent(atom->range.low) : atom->b;
  return TENON_OK;
}

bool tn_extents_has(const tn_extents_t *extents, tenon_dim_t dim) {
  return entry_of(extents, dim) != NULL;
}

/* Splits a sum into its first term and the other terms, or a product into its first factor and the
 * other factors. */
tenon_status_t tn_extents_part(tn_extents_t *extents, tenon_dim_t dim, tn_extent_part_t *out_part) {
  tn_sum_t first;
  tn_sum_t rest = {0};
  const atom_t *atom;
  *out_part =
      (tn_extent_part_t){.kind = TENON_PART_NUMBER, .a = dim = tn_extents_resolve(extents, dim)};
  if (tenon_is_known(dim)) return TENON_OK;
  if (!entry_of(extents, dim))
    return tn_fail(TENON_INVALID, "extents: %" PRId64 " is not a symbol of this table", dim.value);
  if ((atom = atom_of(extents, dim))) return atom_part(extents, atom, out_part);
  read_sum(extents, dim, &first);
  out_part->kind = TENON_PART_OPERATION;
  out_part->operation = first.count > 1 ? TENON_DIM_ADD : TENON_DIM_MUL;
  if (first.count > 1) {
    rest.count = first.count - 1;
    first.count = 1;
    memcpy(rest.terms, first.terms + 1, rest.count * sizeof *rest.terms);
  } else {
    tn_term_t *term = &first.terms[0];
    rest = first;
    if (term->coefficient != 1) {
      tn_sum_constant(&first, term->coefficient);
      rest.terms[0].coefficient = 1;
    } else {
      tn_sum_atom(&first, term->factors[0]);
      rest.terms[0].count--;
      memmove(rest.terms[0].factors, rest.terms[0].factors + 1,
              rest.terms[0].count * sizeof *rest.terms[0].factors);
    }
  }
  TN_TRY(intern_sum(extents, &first, &out_part->a));
  return intern_sum(extents, &rest, &out_part->b);
}

/* printing */

static void print_extent(const tn_extents_t *extents, tenon_dim_t dim, bool is_part, size_t limit,
                         tn_text_t *text);

static void print_atom(const tn_extents_t *extents, const atom_t *atom, bool is_part, size_t limit,
                       tn_text_t *text) {
  if (atom->kind == SYMBOL) {
    if (atom->name)
      tn_text_add(text, "%.64s", atom->name);
    else
      tn_text_add(text, "?%u", atom->serial);
    if (atom->a.value == -1 || is_part) return;
    tn_text_add(text, "<=");
    print_extent(extents, atom->a, false, limit, text);
    return;
  }
  bool is_bare = !forms[atom->kind].before[0];
  bool is_list = forms[atom->kind].between[0] == ',';
  if (is_bare && is_part) tn_text_add(text, "(");
  tn_text_add(text, "%s", forms[atom->kind].before);
  print_extent(extents, atom->a, !is_list, limit, text);
  tn_text_add(text, "%s", forms[atom->kind].between);
  print_extent(extents, atom->b, !is_list, limit, text);
  tn_text_add(text, "%s", forms[atom->kind].after);
  if (is_bare && is_part) tn_text_add(text, ")");
}

/* `is_part`: the extent is an operand, so a sum needs parentheses. */
static void print_extent(const tn_extents_t *extents, tenon_dim_t dim, bool is_part, size_t limit,
                         tn_text_t *text) {
  tn_sum_t sum;
  if (text->size > limit || text->failed) {
    tn_text_add(text, "...");
    return;
  }
  if (tenon_is_known(dim)) {
    tn_text_add(text, "%" PRId64, dim.value);
    return;
  }
  if (!entry_of(extents, dim)) {
    tn_text_add(text, "?");
    return;
  }
  read_sum(extents, dim, &sum);
  bool is_sum = sum.count > 1 || sum.terms[0].coefficient != 1 || sum.terms[0].count > 1;
  if (is_sum && is_part) tn_text_add(text, "(");
  for (uint32_t i = 0; i < sum.count && text->size <= limit && !text->failed; i++) {
    const tn_term_t *term = &sum.terms[i];
    bool is_one = (term->coefficient == 1 || term->coefficient == -1) && term->count;
    if (term->coefficient < 0) tn_text_add(text, "-");
    if (term->coefficient > 0 && i) tn_text_add(text, "+");
    if (!is_one)
      tn_text_add(text, "%" PRIu64,
                  term->coefficient < 0 ? -(uint64_t)term->coefficient
                                        : (uint64_t)term->coefficient);
    for (uint32_t k = 0; k < term->count; k++) {
      if (k || !is_one) tn_text_add(text, "*");
      print_atom(extents, extents->atom_list[term->factors[k]], is_part || is_sum, limit, text);
    }
  }
  if (is_sum && is_part) tn_text_add(text, ")");
}

void tn_extents_print(tn_extents_t *extents, tenon_dim_t dim, tn_text_t *text) {
  print_extent(extents, tn_extents_resolve(extents, dim), false, text->size + PRINTED_MAX, text);
}
