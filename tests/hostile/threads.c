/* Threads that end, jump or have little stack where no NCCL would: a program that calls the plugin as NCCL does.
 *
 *   threads PLUGIN SCENARIO
 *
 * Exits 0 when every call returned success. Prints what was called, for the test to compare with the archive. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>

#include "wrapper.h"

#define CHECK(condition)                                                      \
  do {                                                                        \
    if (!(condition)) {                                                       \
      fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
      exit(1);                                                                \
    }                                                                         \
  } while (0)
#define OK(call) CHECK((call) == ncclSuccess)

static void *library;
static ncclProfiler_v5_t *table;
static void *context;
static int mask;

static void begin(void) { OK(table->init(&context, 0xc0ffee, &mask, "world", 1, 1, 0, NULL)); }
static void end(void) { OK(table->finalize(context)); }

static void *start(void) {
  ncclProfilerEventDescr_v5_t event;
  void *handle = NULL;
  memset(&event, 0, sizeof event);
  event.type = ncclProfileColl;
  event.coll.func = "AllReduce";
  event.coll.count = 1;
  event.coll.datatype = "ncclFloat32";
  OK(table->startEvent(context, &handle, &event));
  return handle;
}

static void stop(void *handle) { OK(table->stopEvent(handle)); }

/* ---- jumps ---- */

static sigjmp_buf out;
static volatile sig_atomic_t inside, jumps, nested;
static const int MOST_JUMPS = 200;

static void jump(int signal) {
  (void)signal;
  if (inside && jumps < MOST_JUMPS) siglongjmp(out, 1);
}

static void call_back(int signal) {
  (void)signal;
  stop(start());
  nested = nested + 1;
}

static void ticks(void (*handler)(int), int flags) {
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_handler = handler;
  action.sa_flags = flags | SA_RESTART;
  CHECK(sigaction(SIGALRM, &action, NULL) == 0);
  struct itimerval interval = {{0, 1000}, {0, 1000}};
  CHECK(setitimer(ITIMER_REAL, &interval, NULL) == 0);
}

static void no_ticks(void) {
  struct itimerval never = {{0, 0}, {0, 0}};
  CHECK(setitimer(ITIMER_REAL, &never, NULL) == 0);
  CHECK(signal(SIGALRM, SIG_IGN) != SIG_ERR);
}

/* Calls from deeper frames than the one that was left. */
static __attribute__((noinline)) void deeper(volatile int levels, void (*call)(void)) {
  volatile char room[512];
  room[0] = 1;
  if (levels > 0) deeper(levels - 1, call);
  else call();
  room[1] = room[0];
}

static volatile long starts;
static void one(void) {
  starts = starts + 1;
  inside = 1;
  void *handle = start();
  inside = 0;
  inside = 1;
  stop(handle);
  inside = 0;
}

static void longjmps(int flags) {
  begin();
  ticks(jump, flags);
  volatile int depth = 0;
  while (jumps < MOST_JUMPS) {
    if (sigsetjmp(out, 1) != 0) {
      inside = 0;
      jumps = jumps + 1;
      depth = (depth + 1) % 3;
    }
    deeper(depth, one);
  }
  no_ticks();
  for (int i = 0; i < 20000; i++) one();
  printf("starts %ld\njumps %d\n", starts, (int)jumps);
  end();
}

static void mask_alarm(int how) {
  sigset_t alarm;
  sigemptyset(&alarm), sigaddset(&alarm, SIGALRM);
  CHECK(pthread_sigmask(how, &alarm, NULL) == 0);
}

static void *alternate(void *unused) {
  (void)unused;
  mask_alarm(SIG_UNBLOCK);
  stack_t stack;
  memset(&stack, 0, sizeof stack);
  stack.ss_size = 1 << 16;
  stack.ss_sp = malloc(stack.ss_size);
  CHECK(sigaltstack(&stack, NULL) == 0);
  longjmps(SA_ONSTACK);
  return NULL;
}

/* Callbacks of a handler inside of a callback. */
static void handler_calls(int flags) {
  stack_t stack;
  memset(&stack, 0, sizeof stack);
  stack.ss_size = 1 << 16;
  stack.ss_sp = malloc(stack.ss_size);
  CHECK(sigaltstack(&stack, NULL) == 0);
  begin();
  ticks(call_back, flags);
  long i = 0;
  for (; i < 50000 || nested < 100; i++) stop(start());
  no_ticks();
  printf("starts %ld\njumps 0\n", i + nested);
  end();
}

/* ---- cancellation ---- */

static volatile int survived;
static int rounds;

static void *cancelled(void *argument) {
  void (*calls_of_thread)(void) = argument;
  CHECK(pthread_cancel(pthread_self()) == 0);
  calls_of_thread();
  survived++;
  pthread_testcancel();
  return NULL;
}

static void many(void) {
  for (int i = 0; i < rounds; i++) stop(start());
}

static void whole_session(void) {
  begin();
  many();
  end();
}

static void in_cancelled_thread(void (*calls_of_thread)(void)) {
  pthread_t thread;
  void *result = NULL;
  int before = survived;
  CHECK(pthread_create(&thread, NULL, cancelled, calls_of_thread) == 0);
  CHECK(pthread_join(thread, &result) == 0);
  CHECK(result == PTHREAD_CANCELED && survived == before + 1);
}

static pthread_barrier_t barrier;

/* The files of the session before are closed where the thread ends. */
static void *ends_late(void *unused) {
  (void)unused;
  stop(start());
  pthread_barrier_wait(&barrier);
  pthread_barrier_wait(&barrier);
  CHECK(pthread_cancel(pthread_self()) == 0);
  return NULL;
}

static void cancel(void) {
  begin();
  rounds = 1, starts += rounds, in_cancelled_thread(many);
  rounds = 20000, starts += rounds, in_cancelled_thread(many);
  pthread_t thread;
  CHECK(pthread_barrier_init(&barrier, NULL, 2) == 0);
  CHECK(pthread_create(&thread, NULL, ends_late, NULL) == 0);
  starts++;
  pthread_barrier_wait(&barrier);
  end();
  pthread_barrier_wait(&barrier);
  CHECK(pthread_join(thread, NULL) == 0);
  rounds = 1, starts += rounds, in_cancelled_thread(whole_session);
  printf("starts %ld\njumps 0\n", starts);
}

/* ---- small stacks ---- */

static char *bottom;
static size_t deepest;

static void paint(char *here) { memset(bottom, 0x5a, (size_t)(here - bottom)); }

static void measure(const char *what, char *here) {
  char *at = bottom;
  while (at < here && *at == 0x5a) at++;
  size_t used = (size_t)(here - at);
  printf("%s %zu\n", what, used);
  if (used > deepest) deepest = used;
}

/* Below the frame that measures. */
#define MEASURED(WHAT, CALLS)                               \
  do {                                                      \
    char *here = (char *)__builtin_frame_address(0) - 1024; \
    paint(here);                                            \
    CALLS;                                                  \
    measure(WHAT, here + 1024);                             \
  } while (0)

#define DEFINE(N)                                                                                     \
  static void types_v##N(void) {                                                                      \
    ncclProfiler_v##N##_t *of = dlsym(library, "ncclProfiler_v" #N);                                  \
    ncclProfilerEventDescr_v##N##_t event;                                                            \
    ncclProfilerEventStateArgs_v##N##_t args;                                                         \
    void *handle;                                                                                     \
    for (int bit = 0; bit < 20; bit++) {                                                              \
      memset(&event, 0, sizeof event), memset(&args, 0, sizeof args);                                 \
      uint64_t type = (uint64_t)1 << bit;                                                             \
      memcpy(&event.type, &type, sizeof event.type);                                                  \
      OK(of->startEvent(context, &handle, &event));                                                   \
      for (unsigned state = 0; state < 40; state++)                                                   \
        OK(of->recordEventState(handle, (ncclProfilerEventState_t)state, state % 2 ? &args : NULL));  \
      OK(of->stopEvent(handle));                                                                      \
    }                                                                                                 \
  }
DEFINE(1)
DEFINE(2)
DEFINE(3)
DEFINE(4)
DEFINE(5)
DEFINE(6)
DEFINE(7)

static void all_types(void) { types_v1(), types_v2(), types_v3(), types_v4(), types_v5(), types_v6(), types_v7(); }

static void other_names(void) {
  static char names[300][40];
  for (int i = 0; i < 300; i++) {
    ncclProfilerEventDescr_v5_t event;
    void *handle = NULL;
    memset(&event, 0, sizeof event);
    snprintf(names[i], sizeof names[i], i % 2 ? "name%d" : "a name that is longer than two words %d", i);
    event.type = ncclProfileColl;
    event.coll.func = names[i];
    OK(table->startEvent(context, &handle, &event));
    OK(table->stopEvent(handle));
  }
}

static void *small(void *unused) {
  (void)unused;
  MEASURED("first", stop(start()));
  MEASURED("second", stop(start()));
  MEASURED("names", other_names());
  MEASURED("types", all_types());
  rounds = 60000;
  MEASURED("segments", many());
  return NULL;
}

/* A callback needs little stack; a thread has what `bytes` says, its descriptor included. */
static void with_stack(size_t bytes) {
  begin();
  pthread_attr_t attributes;
  pthread_t thread;
  bottom = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(bottom != MAP_FAILED);
  CHECK(pthread_attr_init(&attributes) == 0);
  CHECK(pthread_attr_setstack(&attributes, bottom, bytes) == 0);
  CHECK(pthread_create(&thread, &attributes, small, NULL) == 0);
  CHECK(pthread_join(thread, NULL) == 0);
  printf("deepest %zu\n", deepest);
  end();
}

int main(int count, char **arguments) {
  CHECK(count == 3);
  library = dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) fprintf(stderr, "%s\n", dlerror());
  CHECK(library != NULL);
  table = dlsym(library, "ncclProfiler_v5");
  CHECK(table != NULL);
  const char *scenario = arguments[2];
  if (strcmp(scenario, "longjmp") == 0) longjmps(0);
  else if (strcmp(scenario, "longjmp-alternate") == 0) {
    pthread_t thread;
    /* Before there is a second thread: a signal that this one took would jump to the other one's stack. */
    mask_alarm(SIG_BLOCK);
    CHECK(pthread_create(&thread, NULL, alternate, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
  } else if (strcmp(scenario, "nested") == 0) handler_calls(0);
  else if (strcmp(scenario, "nested-alternate") == 0) handler_calls(SA_ONSTACK);
  else if (strcmp(scenario, "cancel") == 0) cancel();
  else if (strcmp(scenario, "stack") == 0) with_stack(1 << 20);
  else if (strcmp(scenario, "small-stack") == 0) with_stack(PTHREAD_STACK_MIN);
  else CHECK(!"a scenario");
  return 0;
}
