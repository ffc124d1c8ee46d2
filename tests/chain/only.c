/* A profiler plugin that has one table only, that of the plugin ONLY_PLUGIN: -DVERSION=5 makes ncclProfiler_v5. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME_OF(version) ncclProfiler_v##version
#define NAME(version) NAME_OF(version)
#define TEXT_OF(version) "ncclProfiler_v" #version
#define TEXT(version) TEXT_OF(version)

void *NAME(VERSION)[6];

__attribute__((constructor)) static void copy(void) {
  void *plugin = dlopen(getenv("ONLY_PLUGIN"), RTLD_NOW | RTLD_LOCAL);
  void *table = plugin ? dlsym(plugin, TEXT(VERSION)) : NULL;
  if (!table) {
    fprintf(stderr, "only.c: %s\n", dlerror());
    abort();
  }
  memcpy(NAME(VERSION), table, sizeof NAME(VERSION));
}
