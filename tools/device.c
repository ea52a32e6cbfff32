/* Opening devices by name; see device.h. */
#include "device.h"

#include <stdlib.h>
#include <string.h>

static bool is_backend(const char *name) {
  for (int32_t i = 0; tenon_backend_name(i); i++)
    if (strcmp(tenon_backend_name(i), name) == 0) return true;
  return false;
}

/* Opens "npu" or "npu:1", given as `size` bytes of text. Operators without a kernel for the device
 * fall back to the CPU. */
static bool open_device(const char *text, size_t size, tenon_device_t *out_device, text_t *why) {
  text_t name = {NULL, 0, 0, false};
  const char *colon = memchr(text, ':', size);
  int32_t count;
  int32_t shown = (int32_t)size;
  char *end = NULL;
  long ordinal = colon ? strtol(colon + 1, &end, 10) : 0;
  bool fine = !colon || (end == text + size && end > colon + 1 && ordinal >= 0 && ordinal < 256);
  if (!fine)
    text_add(why, "'%.*s': expected NAME or NAME:N with N from 0 to 255", (int)shown, text);
  text_bytes(&name, text, colon ? (size_t)(colon - text) : size);
  if (fine && !is_backend(text_get(&name)) &&
      tenon_device_count(text_get(&name), &count) == TENON_NOT_FOUND) {
    text_add(why, "%.*s: %s; a library may bring more devices: load it by --ops LIB", (int)shown,
             text, tenon_error());
    fine = false;
  }
  if (fine && tenon_device_find(text_get(&name), (int32_t)ordinal, out_device) != TENON_OK) {
    text_add(why, "%.*s: %s", (int)shown, text, tenon_error());
    fine = false;
  }
  if (fine && out_device->type != 1) {
    tenon_registration_t *fallback = NULL; /* stays registered until the process ends */
    tenon_status_t status = tenon_backend_check(text_get(&name));
    if (status == TENON_OK)
      status = tenon_fallback_add(text_get(&name), tenon_fallback_cpu, NULL, NULL, 0, &fallback);
    if (status != TENON_OK && status != TENON_EXISTS) {
      text_add(why, "%.*s: %s", (int)shown, text, tenon_error());
      fine = false;
    }
  }
  text_free(&name);
  return fine;
}

static bool open_list(devices_t *d, const char *list, text_t *why) {
  for (const char *at = list, *end; *at; at = *end ? end + 1 : end) {
    end = at + strcspn(at, ",");
    if (d->count == DEVICES_MOST) {
      text_add(why, "--device %s: expected at most %d devices", list, DEVICES_MOST);
      return false;
    }
    text_add(why, "--device ");
    if (!open_device(at, (size_t)(end - at), &d->devices[d->count++], why)) return false;
    text_clear(why);
  }
  return true;
}

static bool open_pins(devices_t *d, const texts_t *pins, text_t *why) {
  if (!(d->pins = calloc((size_t)pins->count + 1, sizeof *d->pins))) {
    text_add(why, "out of memory");
    return false;
  }
  for (int32_t i = 0; i < pins->count; i++) {
    const char *text = pins->items[i];
    const char *sign = strrchr(text, '=');
    text_t node = {NULL, 0, 0, false};
    if (!sign || sign == text) {
      text_add(why, "--pin %s: expected NODE=NAME[:N]", text);
      return false;
    }
    text_bytes(&node, text, (size_t)(sign - text));
    bool fine = texts_add(&d->nodes, text_get(&node));
    text_free(&node);
    if (!fine) {
      text_add(why, "out of memory");
      return false;
    }
    text_add(why, "--pin ");
    if (!open_device(sign + 1, strlen(sign + 1), &d->pins[i].device, why)) return false;
    text_clear(why);
  }
  for (int32_t i = 0; i < pins->count; i++)
    d->pins[i].node = d->nodes.items[i];
  return true;
}

bool devices_open(devices_t *d, const char *list, const texts_t *pins, tenon_compile_t *options,
                  text_t *why) {
  if ((list && !open_list(d, list, why)) || (pins && !open_pins(d, pins, why))) return false;
  options->devices = d->devices;
  options->device_count = d->count;
  options->pins = d->pins;
  options->pin_count = pins ? (uint32_t)pins->count : 0;
  return true;
}

void devices_close(devices_t *d) {
  free(d->pins);
  texts_free(&d->nodes);
}
