/* Saved groups: nodes EPContext, which hold the model of a group with its weights, or name a file
 * that does. The bytes begin with a line that says what they depend on; the model follows. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "model_parts.h"
#include "provider.h"

#define CONTEXT_FORMAT "1" /* raised when older libraries cannot read what is written */
#if defined(__x86_64__)
#define CONTEXT_PROCESSOR "x86_64"
#elif defined(__aarch64__)
#define CONTEXT_PROCESSOR "aarch64"
#else
#define CONTEXT_PROCESSOR "other"
#endif
enum { HEAD_MOST = 256 };

/* ---- what a saved group depends on ----------------------------------------------------------- */

void context_describe(const provider_t *provider, char *text, size_t capacity) {
  snprintf(text, capacity, "tenon-context format=%s version=%s processor=%s device=%s",
           CONTEXT_FORMAT, tenon_version(), CONTEXT_PROCESSOR, provider->factory->device_name);
}

/* Copies the word after `key=`; "" if there is none. */
static void find_word(const char *text, const char *key, char *out, size_t capacity) {
  char pattern[32];
  snprintf(pattern, sizeof pattern, " %s=", key);
  const char *at = strstr(text, pattern);
  *out = 0;
  if (at)
    snprintf(out, capacity, "%.*s", (int)strcspn(at + strlen(pattern), " \n"),
             at + strlen(pattern));
}

static bool has_word(const char *text, const char *key, const char *expected) {
  char word[64];
  find_word(text, key, word, sizeof word);
  return strcmp(word, expected) == 0;
}

ep_compatibility_t context_judge(const char *text) {
  if (strncmp(text, "tenon-context ", 14) != 0) return EP_NOT_APPLICABLE;
  if (!has_word(text, "format", CONTEXT_FORMAT)) return EP_UNSUPPORTED;
  return has_word(text, "processor", CONTEXT_PROCESSOR) ? EP_SUPPORTED : EP_UNSUPPORTED;
}

static tenon_status_t check_head(const provider_t *provider, const char *head) {
  const char *own = provider->factory->device_name;
  char version[64];
  char format[64];
  char processor[64];
  char device[64];
  if (strncmp(head, "tenon-context ", 14) != 0)
    return tn_fail(TENON_INVALID, "a saved group is damaged: it does not begin with tenon-context");
  find_word(head, "version", version, sizeof version);
  find_word(head, "format", format, sizeof format);
  find_word(head, "processor", processor, sizeof processor);
  find_word(head, "device", device, sizeof device);
  if (strcmp(format, CONTEXT_FORMAT) != 0)
    return tn_fail(TENON_INVALID,
                   "a saved group has format %s and is of Tenon %s; Tenon %s reads format %s: "
                   "compile the model again",
                   format, version, tenon_version(), CONTEXT_FORMAT);
  if (strcmp(processor, CONTEXT_PROCESSOR) != 0)
    return tn_fail(TENON_INVALID,
                   "a saved group is for the processor %s; this one is %s: compile the model again",
                   processor, CONTEXT_PROCESSOR);
  if (strcmp(device, own) != 0)
    return tn_fail(
        TENON_INVALID,
        "a saved group is for the device %s; this provider is for %s: register the other one, or "
        "compile the model again",
        device, own);
  return TENON_OK;
}

/* ---- reading --------------------------------------------------------------------------------- */

static tenon_status_t read_context_text(const node_t *node, const char *name, char **out,
                                        size_t *out_size) {
  const OrtOpAttr *attribute = NULL;
  int type = 0;
  void *data = NULL;
  tenon_status_t status = API(Node_GetAttributeByName, node->node, name, &attribute);
  if (status == TENON_OK && attribute) status = API(OpAttr_GetType, attribute, &type);
  if (status == TENON_OK && (!attribute || type != ORT_ATTRIBUTE_STRING))
    return tn_fail(TENON_INVALID, "a node EPContext has no text '%s'", name);
  if (status == TENON_OK)
    status = model_read_attribute(attribute, ORT_ATTRIBUTE_STRING, &data, out_size);
  *out = data;
  return status;
}

bool context_is_node(const node_t *node) {
  char *source = NULL;
  size_t size = 0;
  if (strcmp(node->type, "EPContext") != 0 || strcmp(node->domain, "com.microsoft") != 0)
    return false;
  const bool is_own = read_context_text(node, "source", &source, &size) == TENON_OK &&
                      strcmp(source, PROVIDER_NAME) == 0;
  free(source);
  return is_own;
}

static tenon_status_t is_embedded(const node_t *node, bool *out) {
  const OrtOpAttr *attribute = NULL;
  void *data = NULL;
  size_t size = 0;
  int64_t mode = 1;
  tenon_status_t status = API(Node_GetAttributeByName, node->node, "embed_mode", &attribute);
  if (status == TENON_OK && attribute)
    status = model_read_attribute(attribute, ORT_ATTRIBUTE_INT, &data, &size);
  if (status == TENON_OK && data) memcpy(&mode, data, sizeof mode);
  free(data);
  *out = mode != 0;
  return status;
}

/* The length of the folder in a path, with the slash. */
static int folder_size(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? (int)(slash + 1 - path) : 0;
}

/* The file that a node names, which must be in the folder of the model. */
static tenon_status_t read_context_file(const OrtGraph *graph, const char *name, char **out,
                                        size_t *out_size) {
  const char *model = NULL;
  char *path = NULL;
  tenon_status_t status = API(Graph_GetModelPath, graph, &model);
  if (status != TENON_OK) return status;
  if (!model) model = "";
  if (!*name || strchr(name, '/'))
    return tn_fail(TENON_INVALID,
                   "a node EPContext names the file '%s': expected a file beside the model", name);
  if (asprintf(&path, "%.*s%s", folder_size(model), model, name) < 0)
    return tn_no_memory("a path", 0);
  FILE *file = fopen(path, "rbe");
  long size = -1;
  if (file && fseek(file, 0, SEEK_END) == 0) size = ftell(file);
  *out = size >= 0 ? malloc((size_t)size + 1) : NULL;
  if (*out) rewind(file);
  if (!*out || fread(*out, 1, (size_t)size, file) != (size_t)size)
    status = tn_fail(TENON_INVALID, "the saved group '%s' cannot be read", path);
  if (file) (void)fclose(file);
  free(path);
  *out_size = size >= 0 ? (size_t)size : 0;
  return status;
}

static tenon_status_t take_model(const provider_t *provider, const char *data, size_t size,
                                 message_t *out_model) {
  char head[HEAD_MOST] = "";
  const size_t most = size < sizeof head ? size : sizeof head;
  const char *end = data ? memchr(data, '\n', most) : NULL;
  if (end) snprintf(head, sizeof head, "%.*s", (int)(end - data), data);
  const tenon_status_t status = check_head(provider, head);
  if (status != TENON_OK) return status;
  message_append(out_model, (bytes_t){end + 1, size - (size_t)(end + 1 - data)});
  return out_model->is_failed ? tn_no_memory("a saved group", size) : TENON_OK;
}

tenon_status_t context_read(const provider_t *provider, const OrtGraph *graph, const node_t *node,
                            message_t *out_model) {
  char *data = NULL;
  char *file = NULL;
  size_t size = 0;
  bool is_inside = true;
  tenon_status_t status = is_embedded(node, &is_inside);
  if (status == TENON_OK) status = read_context_text(node, "ep_cache_context", &data, &size);
  if (status == TENON_OK && !is_inside) status = read_context_file(graph, data, &file, &size);
  if (status == TENON_OK) status = take_model(provider, is_inside ? data : file, size, out_model);
  free(data);
  free(file);
  return status;
}

/* ---- writing --------------------------------------------------------------------------------- */

/* Writes the file of a group beside the model that ONNX Runtime will write. Returns its name, the
 * end of *out_path, which the caller frees. */
static tenon_status_t name_file(const options_t *options, const OrtGraph *graph, const char *node,
                                char **out_path, const char **out_name) {
  const char *model = options->context_path;
  if (!model || !*model) {
    const tenon_status_t status = API(Graph_GetModelPath, graph, &model);
    if (status != TENON_OK) return status;
  }
  if (!model) model = "";
  const int size = folder_size(model);
  if (asprintf(out_path, "%s_%s.bin", model, node) < 0) return tn_no_memory("a path", 0);
  *out_name = *out_path + size;
  for (char *at = *out_path + size; *at; at++)
    if (*at == '/') *at = '_';
  return TENON_OK;
}

static tenon_status_t write_file(const char *path, const message_t *bytes) {
  FILE *file = fopen(path, "wbe");
  bool is_good = file && fwrite(bytes->data, 1, bytes->size, file) == bytes->size;
  if (file && fclose(file) != 0) is_good = false;
  return is_good ? TENON_OK
                 : tn_fail(TENON_INVALID, "the saved group cannot be written to '%s'", path);
}

enum { ATTRIBUTES = 7 };

static tenon_status_t add_attribute(OrtOpAttr **attributes, size_t *count, const char *name,
                                    int type, const void *data, size_t size) {
  if (size > INT32_MAX)
    return tn_fail(TENON_UNIMPLEMENTED,
                   "a group has %zu bytes, which no attribute can hold: set ep.context_embed_mode "
                   "to 0",
                   size);
  const tenon_status_t status = API(CreateOpAttr, name, data, (int)size, type, &attributes[*count]);
  *count += status == TENON_OK;
  return status;
}

static tenon_status_t add_context_text(OrtOpAttr **attributes, size_t *count, const char *name,
                                       const char *text) {
  return add_attribute(attributes, count, name, ORT_ATTRIBUTE_STRING, text, strlen(text));
}

static tenon_status_t make_attributes(const options_t *options, const node_t *fused,
                                      const char *data, size_t size, OrtOpAttr **attributes,
                                      size_t *count) {
  const int64_t yes = 1;
  const int64_t mode = options->embeds_contexts;
  tenon_status_t status =
      add_attribute(attributes, count, "main_context", ORT_ATTRIBUTE_INT, &yes, 1);
  if (status == TENON_OK)
    status = add_attribute(attributes, count, "embed_mode", ORT_ATTRIBUTE_INT, &mode, 1);
  if (status == TENON_OK)
    status = add_attribute(attributes, count, "ep_cache_context", ORT_ATTRIBUTE_STRING, data, size);
  if (status == TENON_OK) status = add_context_text(attributes, count, "source", PROVIDER_NAME);
  if (status == TENON_OK)
    status = add_context_text(attributes, count, "ep_sdk_version", tenon_version());
  if (status == TENON_OK)
    status = add_context_text(attributes, count, "hardware_architecture", CONTEXT_PROCESSOR);
  if (status == TENON_OK)
    status = add_context_text(attributes, count, "partition_name", fused->name);
  return status;
}

/* The names of values, which the graph has. */
static tenon_status_t read_names(const values_t *values, const char **out_names) {
  tenon_status_t status = TENON_OK;
  for (size_t i = 0; i < values->count && status == TENON_OK; i++)
    status = API(GetValueInfoName, values->items[i], &out_names[i]);
  return status;
}

static tenon_status_t make_context_node(const options_t *options, const node_t *fused,
                                        const char *data, size_t size, OrtNode **out_node) {
  OrtOpAttr *attributes[ATTRIBUTES] = {NULL};
  size_t count = 0;
  char *name = NULL;
  const char **names = calloc(fused->inputs.count + fused->outputs.count + 1, sizeof *names);
  if (!names) return tn_no_memory("a saved group", 0);
  const char **outputs = names + fused->inputs.count;
  tenon_status_t status = read_names(&fused->inputs, names);
  if (status == TENON_OK) status = read_names(&fused->outputs, outputs);
  if (asprintf(&name, "%s%s", options->context_prefix ? options->context_prefix : "", fused->name) <
      0)
    status = tn_no_memory("a saved group", 0);
  if (status == TENON_OK) status = make_attributes(options, fused, data, size, attributes, &count);
  if (status == TENON_OK)
    status = api_check(api.editor->CreateNode("EPContext", "com.microsoft", name, names,
                                              fused->inputs.count, outputs, fused->outputs.count,
                                              attributes, count, out_node));
  for (size_t i = 0; i < count; i++)
    api.ReleaseOpAttr(attributes[i]); /* the node has copies */
  free(names);
  free(name);
  return status;
}

tenon_status_t context_write(const provider_t *provider, const OrtGraph *graph, const node_t *fused,
                             const message_t *model, OrtNode **out_node) {
  const options_t *options = &provider->options;
  char head[HEAD_MOST];
  char *path = NULL;
  const char *name = NULL;
  message_t bytes = {0};
  *out_node = NULL;
  context_describe(provider, head, sizeof head - 1);
  strcat(head, "\n");
  message_append(&bytes, (bytes_t){head, strlen(head)});
  message_append(&bytes, (bytes_t){model->data, model->size});
  tenon_status_t status = bytes.is_failed ? tn_no_memory("a saved group", model->size) : TENON_OK;
  if (status == TENON_OK && options->embeds_contexts)
    status = make_context_node(options, fused, bytes.data, bytes.size, out_node);
  if (status == TENON_OK && !options->embeds_contexts) {
    status = name_file(options, graph, fused->name, &path, &name);
    if (status == TENON_OK) status = write_file(path, &bytes);
    if (status == TENON_OK)
      status = make_context_node(options, fused, name, strlen(name), out_node);
  }
  free(path);
  message_free(&bytes);
  return status;
}
