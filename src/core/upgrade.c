/* UPGRADE declarations. Parsed by the registry when a library is loaded, applied by attribute sets
 * to nodes of older versions. Invariant: upgrades form a chain, so a name is followed through all
 * later steps. */
#include "core/upgrade.h"

#include <inttypes.h>
#include <string.h>

#include "base/status.h"
#include "core/lexer.h"
#include "core/value.h"

static tenon_status_t parse_step(tn_lexer_t *lexer, tn_arena_t *arena, tn_upgrade_step_t *out) {
  static const char *const words[] = {"rename", "set", "drop", NULL};
  int kind = TN_UPGRADE_RENAME;
  while (words[kind] && !tn_lexer_is(lexer, words[kind]))
    kind++;
  if (!words[kind]) return tn_lexer_unknown(lexer, "rename, set or drop", words, NULL);
  out->kind = (uint8_t)kind;
  tn_lexer_next(lexer);
  TN_TRY(tn_lexer_name(lexer, arena, "the name of an attribute", &out->name));
  if (kind == TN_UPGRADE_RENAME) {
    TN_TRY(tn_lexer_expect(lexer, TN_TOKEN_ARROW, "'->' and the new name"));
    return tn_lexer_name(lexer, arena, "the new name", &out->to);
  }
  if (kind == TN_UPGRADE_DROP) return TENON_OK;
  TN_TRY(tn_lexer_expect(lexer, '=', "'=' and a value"));
  tenon_value_t ignored;
  const char *start = lexer->start;
  const char *end = start;
  tn_lexer_t literal = *lexer;
  TN_TRY(tn_lexer_literal(lexer, arena, &ignored));
  for (; literal.start != lexer->start; tn_lexer_next(&literal))
    end = literal.next;
  out->to = tn_arena_text(arena, start, (size_t)(end - start));
  return out->to ? TENON_OK : tn_no_memory("an upgrade", (size_t)(end - start));
}

tenon_status_t tn_upgrade_parse(int64_t from, const char *text, tn_arena_t *arena,
                                tn_upgrade_t *out_upgrade) {
  tn_lexer_t lexer;
  *out_upgrade = (tn_upgrade_t){0};
  if (from < 1 || from > INT32_MAX)
    return tn_fail(TENON_INVALID, "upgrade from version %" PRId64 ": versions are counted from 1",
                   from);
  out_upgrade->from = (uint32_t)from;
  tn_lexer_open(&lexer, "upgrade", text ? text : "");
  /* the new version reads old nodes unchanged */
  if (lexer.kind == TN_TOKEN_END) return TENON_OK;
  size_t room = 1;
  for (const char *c = text; *c; c++)
    room += *c == ';';
  tn_upgrade_step_t *steps = tn_arena_array(arena, room, sizeof *steps);
  if (!steps || room > UINT32_MAX) return tn_no_memory("an upgrade", room * sizeof *steps);
  do
    TN_TRY(parse_step(&lexer, arena, &steps[out_upgrade->count++]));
  while (tn_lexer_take(&lexer, ';'));
  out_upgrade->steps = steps;
  return tn_lexer_expect(&lexer, TN_TOKEN_END, "';' or the end");
}

/* The name of an attribute after all steps from (upgrade, step) on; NULL if a step drops or sets
 * it. */
static const char *follow_name(const tn_upgrades_t *upgrades, uint32_t upgrade, uint32_t step,
                               const char *name) {
  for (; upgrade < upgrades->count; upgrade++, step = 0)
    for (; step < upgrades->items[upgrade].count; step++) {
      const tn_upgrade_step_t *s = &upgrades->items[upgrade].steps[step];
      if (strcmp(s->name, name) != 0) continue;
      if (s->kind != TN_UPGRADE_RENAME) return NULL;
      name = s->to;
    }
  return name;
}

/* Index of the first upgrade that a node of this version needs. */
static uint32_t first_upgrade(const tn_upgrades_t *upgrades, int64_t version) {
  uint32_t i = 0;
  while (i < upgrades->count && upgrades->items[i].from < version)
    i++;
  return i;
}

const char *tn_upgrades_name(const tn_upgrades_t *upgrades, int64_t version, const char *name) {
  return follow_name(upgrades, first_upgrade(upgrades, version), 0, name);
}

tenon_status_t tn_upgrades_set(const tn_upgrades_t *upgrades, int64_t version,
                               tn_upgrade_set_fn set, void *context) {
  for (uint32_t u = first_upgrade(upgrades, version); u < upgrades->count; u++)
    for (uint32_t s = 0; s < upgrades->items[u].count; s++) {
      const tn_upgrade_step_t *step = &upgrades->items[u].steps[s];
      const char *name =
          step->kind == TN_UPGRADE_SET ? follow_name(upgrades, u, s + 1, step->name) : NULL;
      if (name) TN_TRY(set(context, name, step->to));
    }
  return TENON_OK;
}

static tenon_status_t check_step(const tn_upgrades_t *upgrades, uint32_t u, uint32_t s,
                                 const tn_schema_t *schema, tn_arena_t *arena) {
  const tn_upgrade_step_t *step = &upgrades->items[u].steps[s];
  if (step->kind == TN_UPGRADE_DROP) return TENON_OK;
  const char *name =
      follow_name(upgrades, u, s + 1, step->kind == TN_UPGRADE_SET ? step->name : step->to);
  if (!name) return TENON_OK; /* a later step drops or sets the attribute */
  int32_t index = tn_schema_attr(schema, name, strlen(name));
  tenon_value_t ignored;
  if (index < 0)
    return tn_fail(TENON_INVALID,
                   "upgrade from version %" PRIu32
                   ": '%s' becomes '%s', which is not an attribute of %s",
                   upgrades->items[u].from, step->name, name, schema->text);
  if (step->kind == TN_UPGRADE_RENAME) return TENON_OK;
  return tn_prefix(tn_value_parse(schema, &schema->attrs[index], step->to, arena, &ignored),
                   "upgrade from version %" PRIu32 ": ", upgrades->items[u].from);
}

tenon_status_t tn_upgrades_check(const tn_upgrades_t *upgrades, int64_t version,
                                 const tn_schema_t *schema, tn_arena_t *arena) {
  for (uint32_t u = 0; u < upgrades->count; u++) {
    uint32_t from = upgrades->items[u].from;
    if (from >= version)
      return tn_fail(TENON_INVALID,
                     "upgrade from version %" PRIu32
                     ": expected a version below the operator's, %" PRId64,
                     from, version);
    if (u && from <= upgrades->items[u - 1].from)
      return tn_fail(TENON_INVALID,
                     "upgrade from version %" PRIu32 " follows the one from version %" PRIu32
                     ": expected ascending versions, each once",
                     from, upgrades->items[u - 1].from);
    for (uint32_t s = 0; s < upgrades->items[u].count; s++)
      TN_TRY(check_step(upgrades, u, s, schema, arena));
  }
  return TENON_OK;
}
