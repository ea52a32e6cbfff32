/* UPGRADE texts: how the attributes of a node that was written for an older version of an operator
 * become those of the version that is loaded.  Parsed and checked at load, constant afterwards. */
#ifndef TN_CORE_UPGRADE_H
#define TN_CORE_UPGRADE_H

#include "core/schema.h"

enum {
  TN_UPGRADE_RENAME,
  TN_UPGRADE_SET,
  TN_UPGRADE_DROP,
};
typedef struct tn_upgrade_step_t {
  uint8_t kind;
  const char *name;
  const char *to; /* RENAME: from, to; SET: name and `to`, the literal's text; DROP: name */
} tn_upgrade_step_t;
typedef struct tn_upgrade_t { /* from one version to the next */
  uint32_t from;
  uint32_t count;
  const tn_upgrade_step_t *steps;
} tn_upgrade_t;
typedef struct tn_upgrades_t { /* of one operator, in order of versions */
  uint32_t count;
  const tn_upgrade_t *items;
} tn_upgrades_t;

tenon_status_t tn_upgrade_parse(int64_t from, const char *text, tn_arena_t *arena,
                                tn_upgrade_t *out_upgrade);
/* Against the operator as it is now: versions rise and are below `version`, names end as attributes
 * of the schema, values fit them. */
tenon_status_t tn_upgrades_check(const tn_upgrades_t *upgrades, int64_t version,
                                 const tn_schema_t *schema, tn_arena_t *arena);
/* What the attribute `name` of a node of that version is called now; NULL: it is dropped, or an
 * upgrade sets it. */
const char *tn_upgrades_name(const tn_upgrades_t *upgrades, int64_t version, const char *name);
/* Gives each value that upgrades from `version` on set, under the name that the attribute has
 * now. */
typedef tenon_status_t (*tn_upgrade_set_fn)(void *context, const char *name, const char *literal);
tenon_status_t tn_upgrades_set(const tn_upgrades_t *upgrades, int64_t version,
                               tn_upgrade_set_fn set, void *context);

#endif
