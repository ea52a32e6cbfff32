/* UPGRADE declarations: how the attributes of a node written for an older version of an operator
 * become attributes of the loaded version. Parsed and checked when a library is loaded, constant
 * afterwards. */
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
  /* RENAME: the new name; SET: the value as text; DROP: NULL */
  const char *to;
} tn_upgrade_step_t;
/* The steps from one version to the next. */
typedef struct tn_upgrade_t {
  uint32_t from;
  uint32_t count;
  const tn_upgrade_step_t *steps;
} tn_upgrade_t;
/* All upgrades of one operator, in ascending order of versions. */
typedef struct tn_upgrades_t {
  uint32_t count;
  const tn_upgrade_t *items;
} tn_upgrades_t;

tenon_status_t tn_upgrade_parse(int64_t from, const char *text, tn_arena_t *arena,
                                tn_upgrade_t *out_upgrade);
/* Checks upgrades against the current operator: versions ascend and are below `version`, names lead
 * to attributes of the schema, and values fit the attributes. */
tenon_status_t tn_upgrades_check(const tn_upgrades_t *upgrades, int64_t version,
                                 const tn_schema_t *schema, tn_arena_t *arena);
/* The current name of the attribute `name` of a node of that version; NULL if an upgrade drops or
 * sets it. */
const char *tn_upgrades_name(const tn_upgrades_t *upgrades, int64_t version, const char *name);
/* Calls `set` for each value that upgrades from `version` on set, with the attribute's current
 * name. */
typedef tenon_status_t (*tn_upgrade_set_fn)(void *context, const char *name, const char *literal);
tenon_status_t tn_upgrades_set(const tn_upgrades_t *upgrades, int64_t version,
                               tn_upgrade_set_fn set, void *context);

#endif
