/* The user adapter: what `scorep --user` adds. With FAKE_SCOREP_USER=loaded it is there and not one of the subsystems. */
#define _GNU_SOURCE
#include "fake_scorep.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

struct subsystem {
    const char *name;
};

const struct subsystem SCOREP_Subsystem_UserAdapter = {"user"};
static const struct subsystem other = {"other"};
const struct subsystem *scorep_subsystems[2] = {&other, &SCOREP_Subsystem_UserAdapter};
size_t scorep_number_of_subsystems = 2;

sig_atomic_t *scorep_get_in_measurement(void);
uint32_t SCOREP_Definitions_NewRegion(const char *, const char *, uint32_t, uint32_t, uint32_t, int, int);
void SCOREP_EnterRegion(uint32_t);
void SCOREP_ExitRegion(uint32_t);

struct SCOREP_User_Region {
    uint32_t region;
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

__attribute__((constructor)) static void look(void)
{
    const char *how = getenv("FAKE_SCOREP_USER");
    if (how && strcmp(how, "loaded") == 0) {
        scorep_number_of_subsystems = 1;
    }
}

/* Whether there is anything to do; begins the measurement where it has not begun. */
static bool enter_adapter(void)
{
    if (scorep_number_of_subsystems < 2) {
        fake_fatal("SCOREP_Vector.c: Assertion: the user adapter is not initialised");
    }
    fake_begin();
    return fake_is_within();
}

void SCOREP_User_RegionEnter(struct SCOREP_User_Region *handle)
{
    if (!enter_adapter()) {
        return;
    }
    if (!handle) {
        fake_fatal("SCOREP_User_RegionEnter: no region");
    }
    ++*scorep_get_in_measurement();
    SCOREP_EnterRegion(handle->region);
    --*scorep_get_in_measurement();
}

void SCOREP_User_RegionBegin(struct SCOREP_User_Region **handle, const char **last_name, uint32_t *last_file,
                             const char *name, uint32_t type, const char *file, uint32_t line)
{
    (void)last_name, (void)last_file, (void)type, (void)line;
    if (!enter_adapter()) {
        return;
    }
    if (!name || !file) {
        fake_fatal("SCOREP_User_RegionBegin: no name or file");
    }
    ++*scorep_get_in_measurement();
    pthread_mutex_lock(&mutex);
    if (!*handle) {
        struct SCOREP_User_Region *made = calloc(1, sizeof *made);
        made->region = SCOREP_Definitions_NewRegion(name, name, 1, line, line, 1, 1);
        *handle = made;
    }
    pthread_mutex_unlock(&mutex);
    --*scorep_get_in_measurement();
    SCOREP_User_RegionEnter(*handle);
}

void SCOREP_User_RegionEnd(struct SCOREP_User_Region *handle)
{
    if (!enter_adapter() || !handle) {
        return;
    }
    ++*scorep_get_in_measurement();
    SCOREP_ExitRegion(handle->region);
    --*scorep_get_in_measurement();
}

void SCOREP_User_RegionByNameEnd(const char *name)
{
    fake_fatal("SCOREP_Hashtab.c: Assertion: no region %s", name);
}
