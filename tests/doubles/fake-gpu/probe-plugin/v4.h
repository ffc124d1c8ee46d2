/* Version 4 of the plugin interface (NCCL 2.27). */
#ifndef PROBE_V4_H
#define PROBE_V4_H

struct descr4 {
  uint8_t type;
  void *parent;
  int rank;
  union {
    struct {
      uint64_t seq;
      const char *func;
      const void *send;
      void *recv;
      size_t count;
      int root;
      const char *datatype;
      uint8_t channels, warps;
      const char *algo, *proto;
    } coll;
    struct {
      const char *func;
      void *buff;
      const char *datatype;
      size_t count;
      int peer;
      uint8_t channels;
    } p2p;
    struct proxy_op proxy_op;
    int step;
    struct {
      uint8_t channel;
      uint64_t timer;
    } kernel;
    struct {
      int64_t id;
      void *data;
    } net;
  };
};

union args4 {
  size_t size;
  int appended;
  void *data;
  uint64_t timer;
};

static int start4(void *context, void **handle, struct descr4 *d) {
  struct event *e = open_event(context, handle, d->type);
  char buf[64];
  int foreign = e->kind == 3 && d->proxy_op.pid != (int)getpid();
  const char *par = parent(d->parent, foreign, buf, sizeof buf);
  switch (e->kind) {
  case 1:
    say(HEAD(e) " seq=%llu func=%s count=%zu type=%s root=%d channels=%d warps=%d algo=%s proto=%s", ARGS(e),
        (unsigned long long)d->coll.seq, d->coll.func, d->coll.count, d->coll.datatype, d->coll.root, d->coll.channels,
        d->coll.warps, d->coll.algo, d->coll.proto);
    break;
  case 2:
    say(HEAD(e) " func=%s count=%zu type=%s peer=%d channels=%d", ARGS(e), d->p2p.func, d->p2p.count, d->p2p.datatype,
        d->p2p.peer, d->p2p.channels);
    break;
  case 3: say_proxy_op(e, par, d->rank, &d->proxy_op); break;
  case 4: say(HEAD(e) " step=%d", ARGS(e), d->step); break;
  case 6: say(HEAD(e) " channel=%d timer=%llu", ARGS(e), d->kernel.channel, (unsigned long long)d->kernel.timer); break;
  case 7: say(HEAD(e) " id=%lld", ARGS(e), (long long)d->net.id); break;
  default: say(HEAD(e), ARGS(e));
  }
  return 0;
}

static int state4(void *handle, int s, union args4 *a) {
  char extra[64] = "";
  struct event *e = handle;
  if (a && e && e->kind == 4) snprintf(extra, sizeof extra, " size=%zu", a->size);
  if (a && e && e->kind == 5) snprintf(extra, sizeof extra, " appended=%d", a->appended);
  if (a && e && (e->kind == 6 || e->kind == 15))
    snprintf(extra, sizeof extra, " timer=%llu", (unsigned long long)a->timer);
  return state(handle, s, extra);
}

static int init4(void **context, int *mask, const char *name, uint64_t hash, int nodes, int ranks, int rank, void *log) {
  (void)log;
  begin(context, mask, 4);
  ((struct context *)*context)->rank = rank;
  say("init v4 ctx=%d mask=%#x name=%s hash=%llx nodes=%d ranks=%d rank=%d", ((struct context *)*context)->id, *mask,
      name ? name : "-", (unsigned long long)hash, nodes, ranks, rank);
  return 0;
}

#endif
