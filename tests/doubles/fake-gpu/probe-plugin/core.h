/* What all versions share: events, contexts, the output and the closing summary. Included once, by probe.c. */
#ifndef PROBE_CORE_H
#define PROBE_CORE_H

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { KINDS = 17, STATES = 40 };

static const char *kind_name[KINDS] = {
    "Group",    "Coll",    "P2p",    "ProxyOp",      "ProxyStep", "ProxyCtrl", "KernelCh",    "NetPlugin", "GroupApi",
    "CollApi", "P2pApi", "KernelLaunch", "CeColl",    "CeSync",    "CeBatch",    "KernelPhase", "?"};

static const char *state_name[STATES] = {
    "ProxyOpSendPosted",   "ProxyOpSendRemFifoWait", "ProxyOpSendTransmitted", "ProxyOpSendDone",
    "ProxyOpRecvPosted",   "ProxyOpRecvReceived",    "ProxyOpRecvTransmitted", "ProxyOpRecvDone",
    "ProxyStepSendGPUWait", "ProxyStepSendWait",      "ProxyStepRecvWait",      "ProxyStepRecvFlushWait",
    "ProxyStepRecvGPUWait", "ProxyCtrlIdle",          "ProxyCtrlActive",        "ProxyCtrlSleep",
    "ProxyCtrlWakeup",     "ProxyCtrlAppend",        "ProxyCtrlAppendEnd",     "ProxyOpInProgress",
    "ProxyStepSendPeerWait", "NetPluginUpdate",      "KernelChStop",           "GroupStartApiStop",
    "GroupEndApiStart",    "CeCollStart",            "CeCollComplete",         "CeSyncStart",
    "CeSyncComplete",      "CeBatchStart",           "CeBatchComplete",        "KernelPhaseStop"};

struct context {
  int id, rank, version;
};
struct event {
  uint64_t id;
  int kind;
  struct context *ctx;
  atomic_int stopped;
};

static FILE *out;
static struct timespec zero;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_uint_fast64_t next_event;
static atomic_int next_ctx, live_ctx;
static atomic_ulong starts[KINDS], stops[KINDS], states[STATES], wrong_stops, foreign_parents;

static void say(const char *fmt, ...) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  va_list ap;
  va_start(ap, fmt);
  pthread_mutex_lock(&lock);
  if (!out) {
    zero = t;
    const char *p = getenv("PROBE_OUT");
    if (p && *p) {
      char name[4096];
      snprintf(name, sizeof name, "%s.%d", p, (int)getpid());
      out = fopen(name, "w");
    }
    if (!out) out = stderr;
  }
  long long ns = (t.tv_sec - zero.tv_sec) * 1000000000ll + (t.tv_nsec - zero.tv_nsec);
  fprintf(out, "%lld %ld ", ns, (long)syscall(SYS_gettid));
  vfprintf(out, fmt, ap);
  fputc('\n', out);
  fflush(out);
  pthread_mutex_unlock(&lock);
  va_end(ap);
}

static int begin(void **context, int *mask, int version) {
  struct context *c = calloc(1, sizeof *c);
  c->id = atomic_fetch_add(&next_ctx, 1) + 1;
  c->rank = -1;
  c->version = version;
  atomic_fetch_add(&live_ctx, 1);
  const char *m = getenv("PROBE_MASK");
  *mask = m ? (int)strtol(m, NULL, 0) : (version < 5 ? 0xff : 0xffff);
  *context = c;
  return 0;
}

static int kind_of(uint64_t type) {
  for (int i = 0; i < KINDS - 1; i++)
    if (type == 1ull << i) return i;
  return KINDS - 1;
}

static struct event *open_event(void *context, void **handle, uint64_t type) {
  struct event *e = calloc(1, sizeof *e);
  e->id = atomic_fetch_add(&next_event, 1) + 1;
  e->kind = kind_of(type);
  e->ctx = context;
  atomic_fetch_add(&starts[e->kind], 1);
  *handle = e;
  return e;
}

/* Text for a parent object: only events that this process made are followed. */
static const char *parent(void *p, int foreign, char *buf, size_t n) {
  if (!p) return "-";
  if (foreign) {
    atomic_fetch_add(&foreign_parents, 1);
    return "foreign";
  }
  struct event *e = p;
  snprintf(buf, n, "%s#%llu", kind_name[e->kind], (unsigned long long)e->id);
  return buf;
}

static int stop(void *handle) {
  struct event *e = handle;
  if (!e) return 0;
  atomic_fetch_add(&stops[e->kind], 1);
  if (atomic_fetch_add(&e->stopped, 1)) atomic_fetch_add(&wrong_stops, 1);
  say("stop %s#%llu", kind_name[e->kind], (unsigned long long)e->id);
  return 0;
}

static int state(void *handle, int s, const char *extra) {
  struct event *e = handle;
  if (!e) return 0;
  if (s >= 0 && s < STATES) atomic_fetch_add(&states[s], 1);
  say("state %s#%llu %s%s", kind_name[e->kind], (unsigned long long)e->id,
      s >= 0 && s < STATES && state_name[s] ? state_name[s] : "?", extra);
  return 0;
}

static void summary(void) {
  say("summary contexts=%d live=%d double_stops=%lu foreign_parents=%lu", (int)next_ctx, (int)live_ctx, wrong_stops,
      foreign_parents);
  for (int i = 0; i < KINDS; i++)
    if (starts[i]) say("summary event %s start=%lu stop=%lu", kind_name[i], starts[i], stops[i]);
  for (int i = 0; i < STATES; i++)
    if (states[i]) say("summary state %s %lu", state_name[i] ? state_name[i] : "?", states[i]);
}

static int finalize(void *context) {
  struct context *c = context;
  say("finalize ctx=%d", c->id);
  if (atomic_fetch_sub(&live_ctx, 1) == 1) summary();
  return 0;
}

struct proxy_op {
  int pid;
  uint8_t channel;
  int peer, steps, chunk, is_send;
};

static void say_proxy_op(struct event *e, const char *par, int rank, struct proxy_op *p) {
  say("start ProxyOp#%llu ctx=%d rank=%d parent=%s pid=%d channel=%d peer=%d steps=%d chunk=%d %s",
      (unsigned long long)e->id, e->ctx->id, rank, par, p->pid, p->channel, p->peer, p->steps, p->chunk,
      p->is_send ? "send" : "recv");
}

#define HEAD(e) "start %s#%llu ctx=%d rank=%d parent=%s"
#define ARGS(e) kind_name[(e)->kind], (unsigned long long)(e)->id, (e)->ctx->id, d->rank, par

#endif
