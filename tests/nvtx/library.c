/* A library with an NVTX instance of its own, as NVTX's header makes one in each binary. It keeps nothing of what it
 * passes: each string is overwritten after the call, and when the library is unloaded its tables are gone. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef void *function;

/* By the ids of NvtxCallbackIdCore and NvtxCallbackIdCore2. */
static function core[16], core2[16];
static function *places[2][16];

static int module_functions(int module, function ***table, unsigned *size) {
  if (module != 1 && module != 5) return 0;
  int second = module == 5;
  for (int id = 0; id < 16; id++) places[second][id] = second ? &core2[id] : &core[id];
  *table = places[second];
  *size = 16;
  return 1;
}

static struct {
  size_t size;
  int (*module_functions)(int, function ***, unsigned *);
} callbacks = {sizeof callbacks, module_functions};

static const void *export_table(uint32_t id) { return id == 1 ? &callbacks : NULL; }

struct attributes {
  uint16_t version, size;
  uint32_t numbers[5];
  uint64_t payload;
  int32_t message_type;
  const void *message;
};

static void *domain;

static void *with_text(function called, void *of, const char *text) {
  char *copy = strdup(text);
  void *handle = of ? ((void *(*)(void *, const char *))called)(of, copy) : ((void *(*)(const char *))called)(copy);
  memset(copy, 'x', strlen(text));
  free(copy);
  return handle;
}

int begin(void) {
  void *injection = dlopen(getenv("NVTX_INJECTION64_PATH"), RTLD_LAZY);
  int (*initialize)(const void *(*)(uint32_t)) = injection ? dlsym(injection, "InitializeInjectionNvtx2") : NULL;
  if (!initialize || !initialize(export_table)) return 0;
  domain = with_text(core2[12], NULL, "library");
  return domain != NULL;
}

static void push_message(int type, const void *message) {
  struct attributes attributes = {.version = 3, .size = sizeof attributes, .message_type = type, .message = message};
  ((int (*)(void *, const struct attributes *))core2[4])(domain, &attributes);
}

/* With a registered string. */
void push(const char *name) { push_message(3, with_text(core2[10], domain, name)); }

void pop(void) { ((int (*)(void *))core2[5])(domain); }

/* So many ranges, each of a name of its own: the numbers are not separated. */
void names(int first, int count) {
  char name[32];
  for (int number = first; number < first + count; number++) {
    snprintf(name, sizeof name, "name%dx", number);
    push_message(1, name);
    pop();
  }
}
