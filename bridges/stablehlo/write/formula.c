/* Runs formulas of element-wise operations. Called by table.c for rows that are texts, and by
 * writers for parts of what they write. Invariant: a malformed formula is a bug of the bridge and
 * never read beyond its end. */
#include "write/formula.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"

typedef struct formula_t {
  hlo_write_t *w;
  const char *text;
  const char *at;
  const hlo_val_t *values;
  int32_t count;
  const hlo_val_t *like;
} formula_t;

static const hlo_val_t none = {.id = -1};

static hlo_val_t run_formula_part(formula_t *f);

static hlo_val_t report_formula(formula_t *f) {
  if (!hlo_write_stopped(f->w))
    (void)hlo_write_failed(f->w, tn_fail(TENON_INTERNAL,
                                         "bug in the writer of StableHLO: formula '%s' at '%s'",
                                         f->text, f->at));
  return none;
}

static bool take_mark(formula_t *f, char c) {
  while (*f->at == ' ')
    f->at++;
  if (*f->at != c) return false;
  f->at++;
  return true;
}

static hlo_val_t apply(formula_t *f, const char *name, const hlo_val_t *operands, int32_t count) {
  const bool is_chlo = strncmp(name, "chlo.", 5) == 0;
  if (hlo_write_stopped(f->w)) return none;
  if (isupper((unsigned char)*name) && count == 2)
    return hlo_compare_by(f->w, name, operands[0], operands[1]);
  if (strcmp(name, "select") == 0 && count == 3)
    return hlo_select(f->w, operands[0], operands[1], operands[2]);
  hlo_val_t type = operands[0];
  if (strcmp(name, "is_finite") == 0) type.dtype = tenon_dtype(TENON_BOOL);
  return hlo_emit(f->w, hlo_format(f->w, "%s%s", is_chlo ? "" : "stablehlo.", name), type, "", NULL,
                  operands, count);
}

static hlo_val_t run_operation(formula_t *f, const char *name, size_t size) {
  hlo_val_t operands[4];
  char room[64];
  int32_t count = 0;
  if (size >= sizeof room) return report_formula(f);
  memcpy(room, name, size);
  room[size] = 0;
  while (!hlo_write_stopped(f->w) && !take_mark(f, ')')) {
    if (count == 4 || !*f->at) return report_formula(f);
    operands[count++] = run_formula_part(f);
    (void)take_mark(f, ',');
  }
  return count ? apply(f, room, operands, count) : report_formula(f);
}

static hlo_val_t run_attribute(formula_t *f) {
  char room[64];
  size_t size = 0;
  while (size + 1 < sizeof room && (isalpha((unsigned char)*f->at) || *f->at == '_'))
    room[size++] = *f->at++;
  room[size] = 0;
  return hlo_fill(f->w, f->like, hlo_write_number(f->w, room));
}

static hlo_val_t run_formula_part(formula_t *f) {
  if (hlo_write_stopped(f->w)) return none;
  if (take_mark(f, '$')) return run_attribute(f);
  const char *begin = f->at;
  if (isdigit((unsigned char)*begin) || *begin == '-') {
    char *end;
    double number = strtod(begin, &end);
    f->at = end;
    return hlo_fill(f->w, f->like, number);
  }
  while (isalnum((unsigned char)*f->at) || *f->at == '_' || *f->at == '.')
    f->at++;
  size_t size = (size_t)(f->at - begin);
  if (take_mark(f, '(')) return run_operation(f, begin, size);
  int32_t index = *begin - 'a';
  if (size != 1 || index < 0 || index >= f->count) return report_formula(f);
  return hlo_broadcast_to(f->w, f->values[index], f->like);
}

hlo_val_t hlo_formula(hlo_write_t *w, const char *text, const hlo_val_t *values, int32_t count,
                      const hlo_val_t *like) {
  formula_t f = {w, text, text, values, count, like};
  hlo_val_t value = run_formula_part(&f);
  if (*f.at && !hlo_write_stopped(w)) return report_formula(&f);
  return value;
}
