/* The library of the faulty devices. */
#include "faults.h"
#include <stdlib.h>
#include <string.h>

tenon_device_table_t correct;
static tenon_device_table_t table;

const tenon_descriptor_t *tenon_library_vx(void);
TENON_EXPORT const tenon_descriptor_t *tenon_library(void);

const tenon_descriptor_t *tenon_library(void) {
  static const tenon_item_t items[] = {TENON_DEVICE(&table), {TENON_TAG_END, 0, 0, 0, 0}};
  static tenon_descriptor_t descriptor;
  static const fault_t *const all[] = {copy_faults, order_faults, claim_faults, other_faults};
  const char *name = getenv("FAULT");
  int found = !name || !*name;
  descriptor = *tenon_library_vx();
  descriptor.items = items;
  correct = *(const tenon_device_table_t *)tenon_library_vx()->items[0].text;
  claims_add(&correct);
  table = correct;
  for (int i = 0; i < 4; i++)
    for (const fault_t *f = all[i]; f->name; f++)
      if (!found && strcmp(f->name, name) == 0) {
        f->apply(&table);
        found = 1;
      }
  return found ? &descriptor : NULL;
}
