/* Prints what the C compiler makes of wrapper.h: "structure field offset size" for every field. */
#include <stdio.h>

#include "wrapper.h"

/* In two steps each, so that the short names below are printed in full. */
#define WHOLE(T) WHOLE_(T)
#define WHOLE_(T) printf("%s - 0 %zu\n", #T, sizeof(T))
#define FIELD(T, f) FIELD_(T, f)
#define FIELD_(T, f) printf("%s %s %zu %zu\n", #T, #f, offsetof(T, f), sizeof(((T *)0)->f))

#define HEADER(T) \
  WHOLE(T), FIELD(T, type), FIELD(T, parentObj), FIELD(T, rank)

/* Fields that are the same in every version that has the member. */
#define PROXY_OP(T) \
  FIELD(T, proxyOp), FIELD(T, proxyOp.pid), FIELD(T, proxyOp.channelId), FIELD(T, proxyOp.peer), \
      FIELD(T, proxyOp.nSteps), FIELD(T, proxyOp.chunkSize), FIELD(T, proxyOp.isSend)
#define PROXY_STEP(T) FIELD(T, proxyStep), FIELD(T, proxyStep.step)
#define NET_PLUGIN(T) FIELD(T, netPlugin), FIELD(T, netPlugin.id), FIELD(T, netPlugin.data)
#define KERNEL_CH(T) FIELD(T, kernelCh), FIELD(T, kernelCh.channelId), FIELD(T, kernelCh.pTimer)

#define COLL_COMMON(T) \
  FIELD(T, coll), FIELD(T, coll.seqNumber), FIELD(T, coll.func), FIELD(T, coll.sendBuff), FIELD(T, coll.recvBuff), \
      FIELD(T, coll.count), FIELD(T, coll.root), FIELD(T, coll.datatype), FIELD(T, coll.nWarps), \
      FIELD(T, coll.algo), FIELD(T, coll.proto)
#define COLL_TO_V3(T) COLL_COMMON(T), FIELD(T, coll.name), FIELD(T, coll.commHash), FIELD(T, coll.nMaxChannels)
#define COLL_FROM_V4(T) COLL_COMMON(T), FIELD(T, coll.nChannels)

#define P2P_COMMON(T) \
  FIELD(T, p2p), FIELD(T, p2p.func), FIELD(T, p2p.buff), FIELD(T, p2p.datatype), FIELD(T, p2p.count), \
      FIELD(T, p2p.peer)
#define P2P_TO_V3(T) P2P_COMMON(T), FIELD(T, p2p.name), FIELD(T, p2p.commHash)
#define P2P_FROM_V4(T) P2P_COMMON(T), FIELD(T, p2p.nChannels)

#define FROM_V5(T) \
  COLL_FROM_V4(T), FIELD(T, coll.parentGroup), P2P_FROM_V4(T), FIELD(T, p2p.parentGroup), PROXY_OP(T), \
      PROXY_STEP(T), KERNEL_CH(T), NET_PLUGIN(T), FIELD(T, groupApi), FIELD(T, groupApi.graphCaptured), \
      FIELD(T, groupApi.groupDepth), FIELD(T, collApi), FIELD(T, collApi.func), FIELD(T, collApi.count), \
      FIELD(T, collApi.datatype), FIELD(T, collApi.root), FIELD(T, collApi.stream), \
      FIELD(T, collApi.graphCaptured), FIELD(T, p2pApi), FIELD(T, p2pApi.func), FIELD(T, p2pApi.count), \
      FIELD(T, p2pApi.datatype), FIELD(T, p2pApi.stream), FIELD(T, p2pApi.graphCaptured), FIELD(T, kernelLaunch), \
      FIELD(T, kernelLaunch.stream)
#define FROM_V6(T) \
  FIELD(T, ceColl), FIELD(T, ceColl.seqNumber), FIELD(T, ceColl.func), FIELD(T, ceColl.sendBuff), \
      FIELD(T, ceColl.recvBuff), FIELD(T, ceColl.count), FIELD(T, ceColl.root), FIELD(T, ceColl.datatype), \
      FIELD(T, ceColl.syncStrategy), FIELD(T, ceColl.intraBatchSync), FIELD(T, ceColl.batchSize), \
      FIELD(T, ceColl.numBatches), FIELD(T, ceColl.ceSeqNum), FIELD(T, ceColl.stream), FIELD(T, ceCollSync), \
      FIELD(T, ceCollSync.isComplete), FIELD(T, ceCollSync.nRanks), FIELD(T, ceCollBatch), \
      FIELD(T, ceCollBatch.numOps), FIELD(T, ceCollBatch.totalBytes), FIELD(T, ceCollBatch.useIntraSync)

#define CTRL_ARGS(T) FIELD(T, proxyCtrl), FIELD(T, proxyCtrl.appendedProxyOps)
#define ARGS_TO_V3(T) \
  WHOLE(T), FIELD(T, proxyOp), FIELD(T, proxyOp.transSize), FIELD(T, proxyOp.steps), CTRL_ARGS(T)
#define ARGS_FROM_V4(T) \
  WHOLE(T), FIELD(T, proxyStep), FIELD(T, proxyStep.transSize), CTRL_ARGS(T), FIELD(T, netPlugin), \
      FIELD(T, netPlugin.data), FIELD(T, kernelCh), FIELD(T, kernelCh.pTimer)

#define TABLE(T) \
  WHOLE(T), FIELD(T, name), FIELD(T, init), FIELD(T, startEvent), FIELD(T, stopEvent), FIELD(T, recordEventState), \
      FIELD(T, finalize)

int main(void) {
#define V1 ncclProfilerEventDescr_v1_t
  HEADER(V1), COLL_TO_V3(V1), P2P_TO_V3(V1), PROXY_OP(V1), PROXY_STEP(V1);
  FIELD(V1, coll.op), FIELD(V1, coll.trafficBytes), FIELD(V1, coll.isCollnet), FIELD(V1, coll.isNvls);
#define V2 ncclProfilerEventDescr_v2_t
  HEADER(V2), COLL_TO_V3(V2), P2P_TO_V3(V2), PROXY_OP(V2), PROXY_STEP(V2);
  FIELD(V2, coll.trafficBytes);
#define V3 ncclProfilerEventDescr_v3_t
  HEADER(V3), COLL_TO_V3(V3), P2P_TO_V3(V3), PROXY_OP(V3), PROXY_STEP(V3), NET_PLUGIN(V3);
  FIELD(V3, kernelCh), FIELD(V3, kernelCh.channelId);
#define V4 ncclProfilerEventDescr_v4_t
  HEADER(V4), COLL_FROM_V4(V4), P2P_FROM_V4(V4), PROXY_OP(V4), PROXY_STEP(V4), KERNEL_CH(V4), NET_PLUGIN(V4);
#define V5 ncclProfilerEventDescr_v5_t
  HEADER(V5), FROM_V5(V5);
#define V6 ncclProfilerEventDescr_v6_t
  HEADER(V6), FROM_V5(V6), FROM_V6(V6);
#define V7 ncclProfilerEventDescr_v7_t
  HEADER(V7), FROM_V5(V7), FROM_V6(V7);
  FIELD(V7, coll.kernelVariant), FIELD(V7, coll.isSymColl), FIELD(V7, coll.userTag), FIELD(V7, p2p.userTag);
  FIELD(V7, collApi.userTag), FIELD(V7, p2pApi.userTag), FIELD(V7, ceColl.userTag);
  FIELD(V7, kernelPhase), FIELD(V7, kernelPhase.channelId), FIELD(V7, kernelPhase.phaseId);
  FIELD(V7, kernelPhase.phaseName), FIELD(V7, kernelPhase.pTimer);

  ARGS_TO_V3(ncclProfilerEventStateArgs_v1_t);
  ARGS_TO_V3(ncclProfilerEventStateArgs_v2_t);
  ARGS_TO_V3(ncclProfilerEventStateArgs_v3_t);
  ARGS_FROM_V4(ncclProfilerEventStateArgs_v4_t);
  ARGS_FROM_V4(ncclProfilerEventStateArgs_v5_t);
  ARGS_FROM_V4(ncclProfilerEventStateArgs_v6_t);
  ARGS_FROM_V4(ncclProfilerEventStateArgs_v7_t);

  TABLE(ncclProfiler_v1_t), TABLE(ncclProfiler_v2_t), TABLE(ncclProfiler_v3_t), TABLE(ncclProfiler_v4_t);
  TABLE(ncclProfiler_v5_t), TABLE(ncclProfiler_v6_t), TABLE(ncclProfiler_v7_t);

#define IB ncclProfilerNetIbDescr_v1_t
  WHOLE(IB), FIELD(IB, type), FIELD(IB, qp), FIELD(IB, qp.device), FIELD(IB, qp.wr_id), FIELD(IB, qp.opcode);
  FIELD(IB, qp.qpNum), FIELD(IB, qp.length);
#define SOCKET ncclProfilerNetSockDescr_v1_t
  WHOLE(SOCKET), FIELD(SOCKET, type), FIELD(SOCKET, sock), FIELD(SOCKET, sock.fd), FIELD(SOCKET, sock.op);
  FIELD(SOCKET, sock.length);
  return 0;
}
