/* What is written and what is not: traces, profiles, the user's filter; and metrics.
 *
 *   SCOREP_ENABLE_TRACING, SCOREP_ENABLE_PROFILING  false or true (default true, as the stand-in keeps everything)
 *   SCOREP_FILTERING_FILE                           Score-P's format: rules `EXCLUDE PATTERN` of names, one a line
 */
#define _GNU_SOURCE
#include "fake_scorep.h"

#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

bool fake_is_on(const char *variable)
{
    const char *value = getenv(variable);
    return !value || strcmp(value, "false") != 0;
}

bool SCOREP_IsTracingEnabled(void)
{
    return fake_is_on("SCOREP_ENABLE_TRACING");
}

bool SCOREP_IsProfilingEnabled(void)
{
    return fake_is_on("SCOREP_ENABLE_PROFILING");
}

bool SCOREP_Filtering_Match(const char *file, const char *name, const char *mangled)
{
    char line[512], pattern[512];
    bool is_excluded = false;
    const char *path = getenv("SCOREP_FILTERING_FILE");
    FILE *rules = path ? fopen(path, "r") : NULL;
    if (!file || !name || !mangled) {
        fake_fatal("Filtering_Match without a name");
    }
    while (rules && fgets(line, sizeof line, rules)) {
        if (sscanf(line, " EXCLUDE %511s", pattern) == 1 && fnmatch(pattern, name, 0) == 0) {
            is_excluded = true;
        }
    }
    if (rules) {
        fclose(rules);
    }
    return is_excluded;
}

#define MOST_METRICS 16
static char *metrics[MOST_METRICS];
static uint32_t number_of_metrics = 1;

uint32_t SCOREP_Definitions_NewMetric(const char *name, const char *description, int source, int mode, int value,
                                      int base, int64_t exponent, const char *unit, int profiling, uint32_t parent)
{
    fake_need("NewMetric");
    if (number_of_metrics == MOST_METRICS || strchr(name, ' ') || !description || !unit || source != 2 || mode != 4 ||
        value != 1 || base != 1 || exponent != 0 || profiling != 0 || parent != 0) {
        fake_fatal("NewMetric(%s, source %d, mode %d, value %d)", name, source, mode, value);
    }
    metrics[number_of_metrics] = strdup(name);
    return number_of_metrics++;
}

uint32_t SCOREP_Definitions_NewSamplingSet(uint8_t number, const uint32_t *members, int occurrence, int class)
{
    fake_need("NewSamplingSet");
    if (number != 1 || occurrence != 2 || class != 1) {
        fake_fatal("NewSamplingSet(%d metrics, occurrence %d, class %d)", number, occurrence, class);
    }
    return members[0];
}

void SCOREP_TriggerCounterUint64(uint32_t set, uint64_t value)
{
    fake_need("TriggerCounterUint64");
    if (set == 0 || set >= number_of_metrics) {
        fake_fatal("there is no sampling set %u", set);
    }
    fake_log("metric %d %s %llu", fake_number(SCOREP_Location_GetCurrentCPULocation()), metrics[set],
             (unsigned long long)value);
}
