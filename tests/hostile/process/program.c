/* A program in C, whose signals have their default actions, that loads a profiler plugin and treats its own process
 * as no NCCL does.
 *
 *   program PLUGIN STEP...
 *
 *   init, work, finalize            callbacks; work records from two threads, into several segments
 *   deny=ERROR:NUMBER,NUMBER...     these system calls fail from now on, in all threads; of mmap, shared mappings of
 *                                   files only
 *   close=N, close-from=N           closes a number, or all up to 255 from there on, whoever has it
 *   own                             opens files of its own, until the numbers below 64 are used up
 *   own-is-kept                     fails unless these files are as they were
 *   same-numbers                    fails unless the open numbers are those at the start
 *   stderr=broken|full|terminal|socket    standard error without a reader; or with one that does not read
 *   limit=RESOURCE:VALUE            sets a limit (setrlimit); on memory, beyond what the process has already
 *   starve=N                        after N more allocations no memory is left for anybody
 *   pipe=kept                       a SIGPIPE of the program's own, that it has blocked, comes when it is unblocked
 *
 * Exits 0; 1 if a callback or step fails; 2 if a step cannot be done. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <limits.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <termios.h>
#include <unistd.h>

#include "wrapper.h"

enum { NUMBERS = 256, OWN = 64, EVENTS = 25000 };

static ncclProfiler_v4_t *table;
static void *context;
static int mask;

/* Says no more than where: standard error may be what is tested. */
#define CHECK(condition, status) \
  do {                           \
    if (!(condition)) {          \
      printf("%s: line %d, %s\n", step, __LINE__, strerror(errno)); \
      fflush(stdout);            \
      _exit(status);             \
    }                            \
  } while (0)
#define OK(call) CHECK((call) == ncclSuccess, 1)
#define CAN(condition) CHECK(condition, 2)

static const char *step = "start";

static void *work(void *unused) {
  (void)unused;
  for (int i = 0; i < EVENTS; i++) {
    ncclProfilerEventDescr_v4_t event = {.type = ncclProfileGroup};
    void *handle = NULL;
    OK(table->startEvent(context, &handle, &event));
    OK(table->stopEvent(handle));
  }
  return NULL;
}

static void deny(char *text) {
  struct sock_filter filter[128] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))};
  unsigned length = 1;
  char *numbers = strchr(text, ':');
  CAN(numbers != NULL);
  unsigned answer = SECCOMP_RET_ERRNO | (unsigned)atoi(text);
  for (char *at = strtok(numbers + 1, ","); at != NULL; at = strtok(NULL, ",")) {
    unsigned number = (unsigned)atoi(at);
    if (number == SYS_mmap) {
      filter[length++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 5);
      filter[length++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[3]));
      filter[length++] = (struct sock_filter)BPF_STMT(BPF_ALU | BPF_AND | BPF_K, 0x3); /* MAP_SHARED, MAP_PRIVATE */
      filter[length++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0x1, 0, 1);
      filter[length++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, answer);
      filter[length++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
      continue;
    }
    filter[length++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1);
    filter[length++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, answer);
  }
  filter[length++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  struct sock_fprog program = {.len = (unsigned short)length, .filter = filter};
  CAN(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
  CAN(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) == 0);
}

static void limit(const char *text) {
  unsigned long pages[6] = {0};
  int resource = atoi(text);
  CAN(strchr(text, ':') != NULL);
  struct rlimit limit = {.rlim_cur = strtoul(strchr(text, ':') + 1, NULL, 10)};
  FILE *sizes = fopen("/proc/self/statm", "r");
  CAN(sizes != NULL);
  for (int i = 0; i < 6; i++) CAN(fscanf(sizes, "%lu", &pages[i]) == 1);
  fclose(sizes);
  if (resource == RLIMIT_AS) limit.rlim_cur += pages[0] * (unsigned long)sysconf(_SC_PAGESIZE);
  if (resource == RLIMIT_DATA) limit.rlim_cur += pages[5] * (unsigned long)sysconf(_SC_PAGESIZE);
  limit.rlim_max = limit.rlim_cur;
  CAN(setrlimit(resource, &limit) == 0);
}

/* The C library's own allocator, which also the plugin and what it loads use. */
void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t number, size_t bytes);
void *__libc_realloc(void *memory, size_t bytes);
void *__libc_memalign(size_t alignment, size_t bytes);

static atomic_long left = LONG_MAX;

static int is_refused(void) {
  if (atomic_fetch_sub(&left, 1) > 0) return 0;
  errno = ENOMEM;
  return 1;
}

void *malloc(size_t bytes) { return is_refused() ? NULL : __libc_malloc(bytes); }
void *calloc(size_t number, size_t bytes) { return is_refused() ? NULL : __libc_calloc(number, bytes); }
void *realloc(void *memory, size_t bytes) { return is_refused() ? NULL : __libc_realloc(memory, bytes); }
void *memalign(size_t alignment, size_t bytes) { return is_refused() ? NULL : __libc_memalign(alignment, bytes); }
void *aligned_alloc(size_t alignment, size_t bytes) { return memalign(alignment, bytes); }
int posix_memalign(void **memory, size_t alignment, size_t bytes) {
  *memory = memalign(alignment, bytes);
  return *memory == NULL ? ENOMEM : 0;
}

static void own(void) {
  int file;
  do {
    char name[32];
    static int count;
    snprintf(name, sizeof name, "own.%d", count++);
    file = open(name, O_CREAT | O_TRUNC | O_RDWR, 0600);
    CAN(file >= 0 && write(file, "0123456789", 10) == 10);
  } while (file < OWN);
}

static void own_is_kept(void) {
  for (int i = 0;; i++) {
    char name[32], content[16];
    snprintf(name, sizeof name, "own.%d", i);
    FILE *file = fopen(name, "r");
    if (file == NULL) {
      CHECK(i > 0, 1);
      return;
    }
    CHECK(fread(content, 1, sizeof content, file) == 10 && memcmp(content, "0123456789", 10) == 0, 1);
    fclose(file);
  }
}

static void note(char open[NUMBERS]) {
  for (int number = 0; number < NUMBERS; number++) open[number] = fcntl(number, F_GETFD) != -1;
}

static void standard_error(const char *kind) {
  static char page[4096];
  int ends[2];
  if (strcmp(kind, "broken") == 0) {
    CAN(pipe(ends) == 0 && close(ends[0]) == 0);
  } else if (strcmp(kind, "full") == 0) {
    CAN(pipe(ends) == 0 && fcntl(ends[1], F_SETPIPE_SZ, sizeof page) >= (int)sizeof page);
    for (int room = fcntl(ends[1], F_GETPIPE_SZ); room > 0; room -= (int)sizeof page)
      CAN(write(ends[1], page, sizeof page) == sizeof page);
  } else if (strcmp(kind, "socket") == 0) {
    CAN(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    while (send(ends[1], page, sizeof page, MSG_DONTWAIT) > 0) continue;
  } else {
    ends[0] = posix_openpt(O_RDWR | O_NOCTTY);
    CAN(ends[0] >= 0 && grantpt(ends[0]) == 0 && unlockpt(ends[0]) == 0);
    ends[1] = open(ptsname(ends[0]), O_RDWR | O_NOCTTY);
    CAN(ends[1] >= 0 && tcflow(ends[1], TCOOFF) == 0);
  }
  CAN(dup2(ends[1], STDERR_FILENO) == STDERR_FILENO && close(ends[1]) == 0);
}

static void own_signal(void) {
  sigset_t set, pending;
  CAN(sigemptyset(&set) == 0 && sigaddset(&set, SIGPIPE) == 0 && pthread_sigmask(SIG_BLOCK, &set, NULL) == 0);
  CAN(pthread_kill(pthread_self(), SIGPIPE) == 0);
  OK(table->init(&context, &mask, "world", 0xc0ffee, 1, 1, 0, NULL));
  CHECK(sigpending(&pending) == 0 && sigismember(&pending, SIGPIPE) == 1, 1);
  CHECK(sigwaitinfo(&set, NULL) == SIGPIPE && pthread_sigmask(SIG_UNBLOCK, &set, NULL) == 0, 1);
}

int main(int count, char **arguments) {
  static char before[NUMBERS], now[NUMBERS];
  CAN(count > 1);
  void *library = dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) puts(dlerror());
  CAN(library != NULL && (table = dlsym(library, "ncclProfiler_v4")) != NULL);
  note(before);
  for (int i = 2; i < count; i++) {
    step = arguments[i];
    char *value = strchr(step, '=');
    value = value == NULL ? NULL : value + 1;
    if (strcmp(step, "init") == 0) {
      OK(table->init(&context, &mask, "world", 0xc0ffee, 1, 1, 0, NULL));
    } else if (strcmp(step, "work") == 0) {
      /* Another thread if the system gives one, then this one. */
      pthread_t thread;
      if (pthread_create(&thread, NULL, work, NULL) == 0) pthread_join(thread, NULL);
      work(NULL);
    } else if (strcmp(step, "finalize") == 0) {
      OK(table->finalize(context));
    } else if (strncmp(step, "deny=", 5) == 0) {
      deny(value);
    } else if (strncmp(step, "limit=", 6) == 0) {
      limit(value);
    } else if (strncmp(step, "starve=", 7) == 0) {
      atomic_store(&left, atol(value));
    } else if (strncmp(step, "close=", 6) == 0) {
      close(atoi(value));
      note(before);
    } else if (strncmp(step, "close-from=", 11) == 0) {
      for (int number = atoi(value); number < NUMBERS; number++) close(number);
    } else if (strcmp(step, "own") == 0) {
      own();
    } else if (strcmp(step, "own-is-kept") == 0) {
      own_is_kept();
    } else if (strcmp(step, "same-numbers") == 0) {
      note(now);
      CHECK(memcmp(before, now, NUMBERS) == 0, 1);
    } else if (strncmp(step, "stderr=", 7) == 0) {
      standard_error(value);
    } else if (strcmp(step, "pipe=kept") == 0) {
      own_signal();
    } else {
      CAN(!"a step");
    }
  }
  return 0;
}
