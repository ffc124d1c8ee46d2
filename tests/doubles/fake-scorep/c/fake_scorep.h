/* What the libraries of the stand-in for Score-P share. */
#ifndef FAKE_SCOREP_H
#define FAKE_SCOREP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

typedef struct SCOREP_Location SCOREP_Location;

/* A wrong call: Score-P would end the program here, or be corrupt. Says why, writes the log, aborts. */
void fake_fatal(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));
/* A line of the log. */
void fake_log(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* A new location of a thread or of none. */
SCOREP_Location *fake_new_location(const char *name, bool is_cpu);
/* The location of the main thread. */
SCOREP_Location *fake_master(void);
/* The measurement begins, if it has not. */
void fake_begin(void);
/* Whether the measurement is on; after its end `late` is what is still allowed while it ends. */
bool fake_is_within(void);

/* Ends the program unless the measurement is on, and the thread has said that it is inside of it. */
void fake_need(const char *what);
/* Whether a variable is not `false`. */
bool fake_is_on(const char *variable);
/* The number of a location in the log. */
int fake_number(const SCOREP_Location *location);

/* Loads a substrate plugin, and tells it of the end of the program. */
void fake_load_substrate(const char *name, const char *experiment);
void fake_end_substrate(SCOREP_Location *master, uint64_t time);

/* Of the library that is the thread model. */
SCOREP_Location *SCOREP_Location_GetCurrentCPULocation(void);
void fake_adopt_main_thread(void);

#endif
