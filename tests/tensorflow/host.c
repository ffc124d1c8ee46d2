/* Registers the profiler as TensorFlow does, with structs of several sizes between guard bytes. */
#include <assert.h>
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* As pluggable_profiler.h of TensorFlow declares them. */
typedef struct { size_t struct_size; void *ext; const char *device_type; } Profiler;
typedef void (*Switch)(const Profiler *, void *);
typedef void (*Collect)(const Profiler *, uint8_t *, size_t *, void *);
typedef struct { size_t struct_size; void *ext; Switch start, stop; Collect collect; } Functions;
typedef struct {
  size_t struct_size;
  void *ext;
  int32_t major, minor, patch;
  Profiler *profiler;
  Functions *functions;
  void (*destroy_profiler)(Profiler *);
  void (*destroy_functions)(Functions *);
} Registration;
typedef void (*Init)(Registration *, void *);

#define GUARD 0xab
#define ROOM 128

/* A struct of `size` bytes at the beginning of memory that nobody may write to behind it. */
typedef union {
  unsigned char bytes[ROOM];
  size_t size;
  Profiler profiler;
  Functions functions;
  Registration reg;
} Place;

static void prepare(Place *place, size_t size) {
  memset(place, GUARD, sizeof *place);
  memset(place, 0, size);
  place->size = size;
}

static void check_behind(const Place *place, size_t size) {
  for (size_t at = size; at < ROOM; at++) assert(place->bytes[at] == GUARD);
}

static Init init;
static int status_is_untouched = 7;

/* Whether the profiler registered itself. */
static int offer(size_t registration_size, size_t profiler_size, size_t functions_size, int32_t major) {
  Place registration, profiler, functions;
  prepare(&registration, registration_size);
  prepare(&profiler, profiler_size);
  prepare(&functions, functions_size);
  void *ours = &status_is_untouched;
  profiler.profiler.ext = ours;
  registration.reg.major = major;
  registration.reg.patch = 1;
  registration.reg.profiler = &profiler.profiler;
  registration.reg.functions = &functions.functions;
  Place before[3] = {registration, profiler, functions};
  init(&registration.reg, &status_is_untouched);
  assert(status_is_untouched == 7);
  check_behind(&registration, registration_size);
  check_behind(&profiler, profiler_size);
  check_behind(&functions, functions_size);
  assert(registration.reg.profiler == &profiler.profiler && registration.reg.functions == &functions.functions);
  if (functions_size < sizeof(Functions) || functions.functions.start == NULL) {
    assert(memcmp(&before[0], &registration, ROOM) == 0 && memcmp(&before[1], &profiler, ROOM) == 0);
    assert(memcmp(&before[2], &functions, ROOM) == 0);
    return 0;
  }
  assert(registration.size == 64 && profiler.size == 24 && functions.size == 40);
  assert(profiler.profiler.ext == ours && strcmp(profiler.profiler.device_type, "NCCL") == 0);
  assert(registration.reg.destroy_profiler && registration.reg.destroy_functions);
  Functions *calls = &functions.functions;
  for (int times = 0; times < 3; times++) {
    /* Out of order, too: TensorFlow may give up between any two of them. */
    size_t size = 99;
    calls->collect(&profiler.profiler, NULL, &size, &status_is_untouched);
    assert(size == 0);
    calls->stop(&profiler.profiler, &status_is_untouched);
    calls->start(&profiler.profiler, &status_is_untouched);
    calls->start(&profiler.profiler, &status_is_untouched);
    calls->stop(NULL, NULL);
    uint8_t buffer[4] = {1, 2, 3, 4};
    size = sizeof buffer;
    calls->collect(&profiler.profiler, buffer, &size, &status_is_untouched);
    assert(size == 0 && buffer[0] == 1);
    calls->collect(NULL, NULL, NULL, NULL);
  }
  registration.reg.destroy_profiler(&profiler.profiler);
  registration.reg.destroy_functions(&functions.functions);
  return 1;
}

/* Every callback of a library that was built to panic in it returns, and says that there are no bytes. */
static void panics(void) {
  Place registration, profiler, functions;
  prepare(&registration, 64);
  prepare(&profiler, 24);
  prepare(&functions, 40);
  registration.reg.profiler = &profiler.profiler;
  registration.reg.functions = &functions.functions;
  init(&registration.reg, &status_is_untouched);
  Functions *calls = &functions.functions;
  profiler.profiler.ext = (void *)0xfa17;
  uint8_t buffer[4] = {1, 2, 3, 4};
  calls->start(&profiler.profiler, &status_is_untouched);
  calls->stop(&profiler.profiler, &status_is_untouched);
  size_t size = 99;
  calls->collect(&profiler.profiler, NULL, &size, &status_is_untouched);
  assert(size == 0);
  size = sizeof buffer;
  calls->collect(&profiler.profiler, buffer, &size, &status_is_untouched);
  assert(size == 0 && buffer[0] == 1 && status_is_untouched == 7);
  profiler.profiler.ext = NULL;
  calls->start(&profiler.profiler, &status_is_untouched);
  calls->stop(&profiler.profiler, &status_is_untouched);
}

int main(int count, char **arguments) {
  assert(count == 2 || count == 3);
  void *library = dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  init = (Init)dlsym(library, "TF_InitProfiler");
  assert(init);
  if (count == 3) {
    panics();
    return 0;
  }
  assert(offer(64, 24, 40, 0));
  assert(offer(ROOM, ROOM, ROOM, 0));
  assert(offer(72, 24, 48, 0));
  assert(!offer(56, 24, 40, 0));
  assert(!offer(64, 16, 40, 0));
  assert(!offer(64, 24, 32, 0));
  assert(!offer(64, 24, 40, 1));
  init(NULL, NULL);
  Registration empty = {.struct_size = sizeof empty};
  init(&empty, NULL);
  assert(empty.destroy_profiler == NULL);
  return 0;
}
