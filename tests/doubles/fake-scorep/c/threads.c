/* The thread model: MODEL is 0 none, 1 pthread, 2 OpenMP. Up to 8.x Score-P sees the threads that instrumented code makes,
 * here: the program itself; since 9.0 those of shared libraries as well. With FAKE_SCOREP_THREADS=foreign those of the
 * program are not seen either, as if a library made them. */
#define _GNU_SOURCE
#include "fake_scorep.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#if MODEL == 0
void fake_adopt_main_thread(void)
{
}

SCOREP_Location *SCOREP_Location_GetCurrentCPULocation(void)
{
    if (gettid() != getpid()) {
        /* Its events would stand between those of the main thread. */
        fake_log("foreign thread on the main thread's location");
        fake_fatal("Inconsistent profile: thread %d on the main thread's location", (int)gettid());
    }
    return fake_master();
}
#else
static __thread SCOREP_Location *own;

void fake_adopt_main_thread(void)
{
    own = fake_master();
}

void *scorep_thread_get_private_data(void)
{
    return own;
}

SCOREP_Location *SCOREP_Location_GetCurrentCPULocation(void)
{
    if (!own) {
#if MODEL == 2
        fake_fatal("TPD == 0: Invalid OpenMP thread specific data object");
#else
        own = fake_new_location("Orphan thread", true);
#endif
    }
    return own;
}
#endif

#if MODEL == 1
struct start {
    void *(*run)(void *);
    void *argument;
};

static void *run_known(void *argument)
{
    struct start start = *(struct start *)argument;
    free(argument);
    own = fake_new_location("Pthread thread", true);
    return start.run(start.argument);
}

static bool is_instrumented(const void *caller)
{
#if FAKE_SCOREP_VERSION >= 9
    (void)caller;
    return true;
#else
    const char *threads = getenv("FAKE_SCOREP_THREADS");
    Dl_info calling;
    if (threads && strcmp(threads, "foreign") == 0) {
        return false;
    }
    if (!dladdr(caller, &calling)) {
        return false;
    }
    return strstr(calling.dli_fname, ".so") == NULL;
#endif
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *argument)
{
    static int (*create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    if (!create) {
        create = (int (*)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *))dlsym(RTLD_NEXT, "pthread_create");
    }
    if (!fake_is_within() || !is_instrumented(__builtin_return_address(0))) {
        return create(thread, attributes, run, argument);
    }
    struct start *start = malloc(sizeof *start);
    *start = (struct start){run, argument};
    return create(thread, attributes, run_known, start);
}
#endif
