/* Version 1 of the plugin interface (NCCL 2.23). */
#ifndef PROBE_V1_H
#define PROBE_V1_H

struct descr1 {
  uint8_t type;
  void *parent;
  int rank;
  union {
    struct {
      const char *name;
      uint64_t hash, seq;
      uint8_t func;
      const void *send;
      void *recv;
      size_t count;
      int root;
      uint8_t datatype;
      uint32_t op;
      size_t traffic;
      uint8_t channels, warps, algo, proto;
      int collnet, nvls;
    } coll;
    struct {
      const char *name;
      uint64_t hash;
      uint8_t func;
      void *buff;
      uint8_t datatype;
      size_t count;
      int peer;
    } p2p;
    struct proxy_op proxy_op;
    int step;
  };
};

union args13 {
  struct {
    size_t size;
    int steps;
  } proxy_op;
  int appended;
};

static int init1(void **context, int *mask) {
  begin(context, mask, 1);
  say("init v1 ctx=%d mask=%#x", ((struct context *)*context)->id, *mask);
  return 0;
}

static int start1(void *context, void **handle, struct descr1 *d) {
  struct event *e = open_event(context, handle, d->type);
  char buf[64];
  int foreign = e->kind == 3 && d->proxy_op.pid != (int)getpid();
  const char *par = parent(d->parent, foreign, buf, sizeof buf);
  switch (e->kind) {
  case 1:
    say(HEAD(e) " seq=%llu func=%d count=%zu type=%d op=%u root=%d channels=%d warps=%d algo=%d proto=%d hash=%llx name=%s",
        ARGS(e), (unsigned long long)d->coll.seq, d->coll.func, d->coll.count, d->coll.datatype, d->coll.op,
        d->coll.root, d->coll.channels, d->coll.warps, d->coll.algo, d->coll.proto, (unsigned long long)d->coll.hash,
        d->coll.name ? d->coll.name : "-");
    break;
  case 2:
    say(HEAD(e) " func=%d count=%zu type=%d peer=%d", ARGS(e), d->p2p.func, d->p2p.count, d->p2p.datatype, d->p2p.peer);
    break;
  case 3: say_proxy_op(e, par, d->rank, &d->proxy_op); break;
  case 4: say(HEAD(e) " step=%d", ARGS(e), d->step); break;
  default: say(HEAD(e), ARGS(e));
  }
  return 0;
}

static int state13(void *handle, int s, union args13 *a) {
  char extra[64] = "";
  struct event *e = handle;
  if (a && e && e->kind == 3) snprintf(extra, sizeof extra, " size=%zu steps=%d", a->proxy_op.size, a->proxy_op.steps);
  if (a && e && e->kind == 5) snprintf(extra, sizeof extra, " appended=%d", a->appended);
  return state(handle, s, extra);
}

#endif
