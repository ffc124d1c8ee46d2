/* Versions 2 and 3 of the plugin interface (NCCL 2.24 to 2.26). */
#ifndef PROBE_V2_V3_H
#define PROBE_V2_V3_H

struct descr2 {
  uint8_t type;
  void *parent;
  int rank;
  union {
    struct {
      const char *name;
      uint64_t hash, seq;
      const char *func;
      const void *send;
      void *recv;
      size_t count;
      int root;
      const char *datatype;
      size_t traffic; /* not in version 3 */
      uint8_t channels, warps;
      const char *algo, *proto;
    } coll2;
    struct {
      const char *name;
      uint64_t hash, seq;
      const char *func;
      const void *send;
      void *recv;
      size_t count;
      int root;
      const char *datatype;
      uint8_t channels, warps;
      const char *algo, *proto;
    } coll3;
    struct {
      const char *name;
      uint64_t hash;
      const char *func;
      void *buff;
      const char *datatype;
      size_t count;
      int peer;
    } p2p;
    struct proxy_op proxy_op;
    int step;
    uint8_t kernel_channel;
    struct {
      int64_t id;
      void *data;
    } net;
  };
};

static int start23(void *context, void **handle, struct descr2 *d) {
  struct event *e = open_event(context, handle, d->type);
  char buf[64];
  int foreign = e->kind == 3 && d->proxy_op.pid != (int)getpid();
  const char *par = parent(d->parent, foreign, buf, sizeof buf);
  int v2 = e->ctx->version == 2;
  switch (e->kind) {
  case 1:
    say(HEAD(e) " seq=%llu func=%s count=%zu type=%s root=%d channels=%d warps=%d algo=%s proto=%s hash=%llx name=%s",
        ARGS(e), (unsigned long long)d->coll2.seq, d->coll2.func, d->coll2.count, d->coll2.datatype, d->coll2.root,
        v2 ? d->coll2.channels : d->coll3.channels, v2 ? d->coll2.warps : d->coll3.warps,
        v2 ? d->coll2.algo : d->coll3.algo, v2 ? d->coll2.proto : d->coll3.proto, (unsigned long long)d->coll2.hash,
        d->coll2.name ? d->coll2.name : "-");
    break;
  case 2:
    say(HEAD(e) " func=%s count=%zu type=%s peer=%d", ARGS(e), d->p2p.func, d->p2p.count, d->p2p.datatype, d->p2p.peer);
    break;
  case 3: say_proxy_op(e, par, d->rank, &d->proxy_op); break;
  case 4: say(HEAD(e) " step=%d", ARGS(e), d->step); break;
  case 6: say(HEAD(e) " channel=%d", ARGS(e), d->kernel_channel); break;
  case 7: say(HEAD(e) " id=%lld", ARGS(e), (long long)d->net.id); break;
  default: say(HEAD(e), ARGS(e));
  }
  return 0;
}

static int init2(void **context, int *mask) {
  begin(context, mask, 2);
  say("init v2 ctx=%d mask=%#x", ((struct context *)*context)->id, *mask);
  return 0;
}

static int init3(void **context, int *mask) {
  begin(context, mask, 3);
  say("init v3 ctx=%d mask=%#x", ((struct context *)*context)->id, *mask);
  return 0;
}

#endif
