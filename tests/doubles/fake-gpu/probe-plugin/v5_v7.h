/* Versions 5, 6 and 7 of the plugin interface (NCCL 2.28 and later). */
#ifndef PROBE_V5_V7_H
#define PROBE_V5_V7_H

struct descr5 {
  uint64_t type;
  void *parent;
  int rank;
  union {
    struct {
      bool captured;
      int depth;
    } group_api;
    struct {
      const char *func;
      size_t count;
      const char *datatype;
      int root;
      void *stream;
      bool captured;
      uint64_t tag; /* version 7 */
    } coll_api;
    struct {
      const char *func;
      size_t count;
      const char *datatype;
      void *stream;
      bool captured;
      uint64_t tag; /* version 7 */
    } p2p_api;
    void *launch_stream;
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
      void *group;
      const char *variant; /* version 7 */
      bool symmetric;      /* version 7 */
      uint64_t tag;        /* version 7 */
    } coll;
    struct {
      const char *func;
      void *buff;
      const char *datatype;
      size_t count;
      int peer;
      uint8_t channels;
      void *group;
      uint64_t tag; /* version 7 */
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
    struct {
      uint64_t seq;
      const char *func;
      const void *send;
      void *recv;
      size_t count;
      int root;
      const char *datatype;
      const char *sync;
      bool intra;
      uint32_t batch_size, batches, ce_seq;
      void *stream;
      uint64_t tag; /* version 7 */
    } ce_coll;
    struct {
      uint8_t channel, phase;
      const char *name;
      uint64_t timer;
    } phase; /* version 7 */
  };
};

static int start57(void *context, void **handle, struct descr5 *d) {
  struct event *e = open_event(context, handle, d->type);
  char buf[64], buf2[64];
  int foreign = e->kind == 3 && d->proxy_op.pid != (int)getpid();
  const char *par = parent(d->parent, foreign, buf, sizeof buf);
  char more[160] = "";
  int v7 = e->ctx->version >= 7;
  switch (e->kind) {
  case 1:
    if (v7)
      snprintf(more, sizeof more, " variant=%s symmetric=%d tag=%llu", d->coll.variant ? d->coll.variant : "-",
               d->coll.symmetric, (unsigned long long)d->coll.tag);
    say(HEAD(e) " group=%s seq=%llu func=%s count=%zu type=%s root=%d channels=%d warps=%d algo=%s proto=%s%s", ARGS(e),
        parent(d->coll.group, 0, buf2, sizeof buf2), (unsigned long long)d->coll.seq, d->coll.func, d->coll.count,
        d->coll.datatype, d->coll.root, d->coll.channels, d->coll.warps, d->coll.algo ? d->coll.algo : "-",
        d->coll.proto ? d->coll.proto : "-", more);
    break;
  case 2:
    say(HEAD(e) " group=%s func=%s count=%zu type=%s peer=%d channels=%d", ARGS(e),
        parent(d->p2p.group, 0, buf2, sizeof buf2), d->p2p.func, d->p2p.count, d->p2p.datatype, d->p2p.peer,
        d->p2p.channels);
    break;
  case 3: say_proxy_op(e, par, d->rank, &d->proxy_op); break;
  case 4: say(HEAD(e) " step=%d", ARGS(e), d->step); break;
  case 6: say(HEAD(e) " channel=%d timer=%llu", ARGS(e), d->kernel.channel, (unsigned long long)d->kernel.timer); break;
  case 7: say(HEAD(e) " id=%lld", ARGS(e), (long long)d->net.id); break;
  case 8: say(HEAD(e) " captured=%d depth=%d", ARGS(e), d->group_api.captured, d->group_api.depth); break;
  case 9:
    if (v7) snprintf(more, sizeof more, " tag=%llu", (unsigned long long)d->coll_api.tag);
    say(HEAD(e) " func=%s count=%zu type=%s root=%d stream=%p%s", ARGS(e), d->coll_api.func, d->coll_api.count,
        d->coll_api.datatype, d->coll_api.root, d->coll_api.stream, more);
    break;
  case 10:
    say(HEAD(e) " func=%s count=%zu type=%s stream=%p", ARGS(e), d->p2p_api.func, d->p2p_api.count,
        d->p2p_api.datatype, d->p2p_api.stream);
    break;
  case 11: say(HEAD(e) " stream=%p", ARGS(e), d->launch_stream); break;
  case 15:
    say(HEAD(e) " channel=%d phase=%d name=%s timer=%llu", ARGS(e), d->phase.channel, d->phase.phase,
        d->phase.name ? d->phase.name : "-", (unsigned long long)d->phase.timer);
    break;
  default: say(HEAD(e), ARGS(e));
  }
  return 0;
}

static int init_late(int v, void **context, uint64_t id, int *mask, const char *name, int nodes, int ranks, int rank) {
  begin(context, mask, v);
  ((struct context *)*context)->rank = rank;
  say("init v%d ctx=%d mask=%#x id=%llx name=%s nodes=%d ranks=%d rank=%d", v, ((struct context *)*context)->id, *mask,
      (unsigned long long)id, name ? name : "-", nodes, ranks, rank);
  return 0;
}

#define LATE(v) \
  static int init##v(void **c, uint64_t id, int *m, const char *n, int nodes, int ranks, int rank, void *log) { \
    (void)log; \
    return init_late(v, c, id, m, n, nodes, ranks, rank); \
  }
LATE(5)
LATE(6)
LATE(7)

#endif
