/* NCCL's profiler plugin interface, versions 1 to 7, declared from scratch.
 *
 * NCCL looks for the symbols ncclProfiler_v7 ... ncclProfiler_v1 in the plugin, from the highest that it
 * knows downwards, and calls the first one that is there:
 *
 *   NCCL release            highest version
 *   2.23.4                  v1
 *   2.24.3, 2.25.1          v2
 *   2.26.2 - 2.26.6         v3
 *   2.27.3 - 2.27.7         v4
 *   2.28.3 - 2.28.9         v5
 *   2.29.2 - 2.30.7         v6
 *   2.31.2 - 2.32.6         v7
 *
 * The types that NCCL names are named as NCCL names them. The members of the descriptors' unions have
 * names of their own here, each with the version that introduced its shape, so that versions which share a
 * shape share a type. The bindings assert the sizes and offsets that a C compiler gives them; the tests call the plugin
 * with structures that tests/doubles/plugin-host lays out by a reading of its own.
 *
 * Only LP64 (x86-64, aarch64). C11 and C++11.
 */
#ifndef NCCL_PROFILER_OTF2_WRAPPER_H_
#define NCCL_PROFILER_OTF2_WRAPPER_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- what the versions share ---------------------------------------------------------------------- */

#ifndef NCCL_H_ /* nccl.h has the same type */
typedef enum {
  ncclSuccess = 0,
  ncclUnhandledCudaError = 1,
  ncclSystemError = 2,
  ncclInternalError = 3,
  ncclInvalidArgument = 4,
  ncclInvalidUsage = 5,
  ncclRemoteError = 6,
  ncclInProgress = 7
} ncclResult_t;
#endif

typedef enum {
  NCCL_LOG_NONE = 0,
  NCCL_LOG_VERSION = 1,
  NCCL_LOG_WARN = 2, /* also becomes ncclGetLastError */
  NCCL_LOG_INFO = 3,
  NCCL_LOG_ABORT = 4,
  NCCL_LOG_TRACE = 5
} ncclDebugLogLevel;

/* Bits of the logger's flags. A line appears if one of its bits is in NCCL_DEBUG_SUBSYS (default: INIT, ENV, BOOTSTRAP). */
enum { NCCL_INIT = 0x1, NCCL_ENV = 0x80, NCCL_PROFILE = 0x4000 };

/* printf-like. Handed to init since v4. */
typedef void (*ncclDebugLogger_t)(ncclDebugLogLevel level, unsigned long flags, const char *file, int line,
                                  const char *fmt, ...);

/* A C++ bool. One byte; declared as a number so that no value of it is invalid to read. */
typedef uint8_t ncclProfilerBool_t;

/* Event types: bits of the activation mask, and `type` of a descriptor. */
enum {
  ncclProfileGroup = 0x1,         /* v1, 2.23.4 */
  ncclProfileColl = 0x2,          /* v1 */
  ncclProfileP2p = 0x4,           /* v1 */
  ncclProfileProxyOp = 0x8,       /* v1 */
  ncclProfileProxyStep = 0x10,    /* v1 */
  ncclProfileProxyCtrl = 0x20,    /* v1 */
  ncclProfileKernelCh = 0x40,     /* v3, 2.26.2 */
  ncclProfileNetPlugin = 0x80,    /* v3 */
  ncclProfileGroupApi = 0x100,    /* v5, 2.28.3 */
  ncclProfileCollApi = 0x200,     /* v5 */
  ncclProfileP2pApi = 0x400,      /* v5 */
  ncclProfileKernelLaunch = 0x800,/* v5 */
  ncclProfileCeColl = 0x1000,     /* v6, 2.29.2 */
  ncclProfileCeSync = 0x2000,     /* v6 */
  ncclProfileCeBatch = 0x4000,    /* v6 */
  ncclProfileKernelPhase = 0x8000 /* v7, 2.31.2 */
};

/* States of recordEventState. One list for all versions: numbers were never given twice. */
typedef enum {
  ncclProfilerProxyOpSendPosted = 0, /* 0 to 7: v1 to v3, sent by 2.23 to 2.26 only */
  ncclProfilerProxyOpSendRemFifoWait = 1,
  ncclProfilerProxyOpSendTransmitted = 2,
  ncclProfilerProxyOpSendDone = 3,
  ncclProfilerProxyOpRecvPosted = 4,
  ncclProfilerProxyOpRecvReceived = 5,
  ncclProfilerProxyOpRecvTransmitted = 6,
  ncclProfilerProxyOpRecvDone = 7,
  ncclProfilerProxyStepSendGPUWait = 8,
  ncclProfilerProxyStepSendWait = 9,
  ncclProfilerProxyStepRecvWait = 10,
  ncclProfilerProxyStepRecvFlushWait = 11,
  ncclProfilerProxyStepRecvGPUWait = 12,
  ncclProfilerProxyCtrlIdle = 13,
  ncclProfilerProxyCtrlActive = 14,
  ncclProfilerProxyCtrlSleep = 15,
  ncclProfilerProxyCtrlWakeup = 16,
  ncclProfilerProxyCtrlAppend = 17,
  ncclProfilerProxyCtrlAppendEnd = 18,
  ncclProfilerProxyOpInProgress_v4 = 19,     /* v4, 2.27.3 */
  ncclProfilerProxyStepSendPeerWait_v4 = 20, /* v4; in time between 8 and 9; repeats */
  ncclProfilerNetPluginUpdate = 21,          /* v4 */
  ncclProfilerKernelChStop = 22,             /* v4 */
  ncclProfilerGroupStartApiStop = 23,        /* v5, 2.28.3; no arguments */
  ncclProfilerGroupEndApiStart = 24,         /* v5; no arguments */
  ncclProfilerCeCollStart = 25,              /* 25 to 30: v6, never sent */
  ncclProfilerCeCollComplete = 26,
  ncclProfilerCeSyncStart = 27,
  ncclProfilerCeSyncComplete = 28,
  ncclProfilerCeBatchStart = 29,
  ncclProfilerCeBatchComplete = 30,
  ncclProfilerKernelPhaseStop = 31 /* v7, 2.31.2; argument as for 22 */
} ncclProfilerEventState_t;

typedef ncclProfilerEventState_t ncclProfilerEventState_v1_t;
typedef ncclProfilerEventState_t ncclProfilerEventState_v2_t;
typedef ncclProfilerEventState_t ncclProfilerEventState_v3_t;
typedef ncclProfilerEventState_t ncclProfilerEventState_v4_t;
typedef ncclProfilerEventState_t ncclProfilerEventState_v5_t;
typedef ncclProfilerEventState_t ncclProfilerEventState_v6_t;
typedef ncclProfilerEventState_t ncclProfilerEventState_v7_t;

/* ---- members of the descriptors -------------------------------------------------------------------- */

typedef struct {
  const char *name;  /* always NULL */
  uint64_t commHash; /* 0 from 2.27 on */
  uint64_t seqNumber;
  uint8_t func; /* numbers of NCCL's internal enumerations of 2.23 */
  void const *sendBuff;
  void *recvBuff;
  size_t count;
  int root;
  uint8_t datatype;
  uint32_t op;
  size_t trafficBytes;
  uint8_t nMaxChannels;
  uint8_t nWarps;
  uint8_t algo;
  uint8_t proto;
  int isCollnet;
  int isNvls;
} ncclProfilerColl_v1_t;

typedef struct {
  const char *name;
  uint64_t commHash;
  uint64_t seqNumber;
  const char *func;
  void const *sendBuff;
  void *recvBuff;
  size_t count;
  int root;
  const char *datatype;
  size_t trafficBytes;
  uint8_t nMaxChannels;
  uint8_t nWarps;
  const char *algo;
  const char *proto;
} ncclProfilerColl_v2_t;

typedef struct { /* v2 without trafficBytes */
  const char *name;
  uint64_t commHash;
  uint64_t seqNumber;
  const char *func;
  void const *sendBuff;
  void *recvBuff;
  size_t count;
  int root;
  const char *datatype;
  uint8_t nMaxChannels;
  uint8_t nWarps;
  const char *algo;
  const char *proto;
} ncclProfilerColl_v3_t;

typedef struct { /* v3 without name and commHash, which init has now */
  uint64_t seqNumber;
  const char *func;
  void const *sendBuff;
  void *recvBuff;
  size_t count;
  int root;
  const char *datatype;
  uint8_t nChannels;
  uint8_t nWarps;
  const char *algo;
  const char *proto;
} ncclProfilerColl_v4_t;

typedef struct { /* v4 and parentGroup; also v6 */
  uint64_t seqNumber;
  const char *func;
  void const *sendBuff;
  void *recvBuff;
  size_t count;
  int root;
  const char *datatype;
  uint8_t nChannels;
  uint8_t nWarps;
  const char *algo;
  const char *proto;
  void *parentGroup;
} ncclProfilerColl_v5_t;

typedef struct { /* v5 and three more */
  uint64_t seqNumber;
  const char *func;
  void const *sendBuff;
  void *recvBuff;
  size_t count;
  int root;
  const char *datatype;
  uint8_t nChannels;
  uint8_t nWarps;
  const char *algo;
  const char *proto;
  void *parentGroup;
  const char *kernelVariant;
  ncclProfilerBool_t isSymColl;
  uint64_t userTag;
} ncclProfilerColl_v7_t;

typedef struct {
  const char *name;
  uint64_t commHash;
  uint8_t func;
  void *buff;
  uint8_t datatype;
  size_t count;
  int peer;
} ncclProfilerP2p_v1_t;

typedef struct { /* also v3 */
  const char *name;
  uint64_t commHash;
  const char *func;
  void *buff;
  const char *datatype;
  size_t count;
  int peer;
} ncclProfilerP2p_v2_t;

typedef struct {
  const char *func;
  void *buff;
  const char *datatype;
  size_t count;
  int peer;
  uint8_t nChannels; /* not set when a v4 plugin runs on 2.28 or later */
} ncclProfilerP2p_v4_t;

typedef struct { /* v4 and parentGroup; also v6 */
  const char *func;
  void *buff;
  const char *datatype;
  size_t count;
  int peer;
  uint8_t nChannels;
  void *parentGroup;
} ncclProfilerP2p_v5_t;

typedef struct { /* v5 and userTag */
  const char *func;
  void *buff;
  const char *datatype;
  size_t count;
  int peer;
  uint8_t nChannels;
  void *parentGroup;
  uint64_t userTag;
} ncclProfilerP2p_v7_t;

typedef struct { /* all versions */
  int32_t pid;   /* pid_t: the process that asked for the operation, not always this one */
  uint8_t channelId;
  int peer;
  int nSteps;
  int chunkSize;
  int isSend;
} ncclProfilerProxyOp_v1_t;

typedef struct { /* all versions */
  int step;
} ncclProfilerProxyStep_v1_t;

typedef struct {
  uint8_t channelId;
} ncclProfilerKernelCh_v3_t;

typedef struct { /* also v5 to v7 */
  uint8_t channelId;
  uint64_t pTimer; /* GPU globaltimer, ns */
} ncclProfilerKernelCh_v4_t;

typedef struct { /* also v4 to v7 */
  int64_t id;    /* see ncclProfilerNetId_t */
  void *data;
} ncclProfilerNetPlugin_v3_t;

typedef struct { /* also v6, v7 */
  ncclProfilerBool_t graphCaptured;
  int groupDepth;
} ncclProfilerGroupApi_v5_t;

typedef struct { /* also v6 */
  const char *func;
  size_t count;
  const char *datatype;
  int root;
  void *stream;
  ncclProfilerBool_t graphCaptured;
} ncclProfilerCollApi_v5_t;

typedef struct { /* v5 and userTag */
  const char *func;
  size_t count;
  const char *datatype;
  int root;
  void *stream;
  ncclProfilerBool_t graphCaptured;
  uint64_t userTag;
} ncclProfilerCollApi_v7_t;

typedef struct { /* also v6 */
  const char *func;
  size_t count;
  const char *datatype;
  void *stream;
  ncclProfilerBool_t graphCaptured;
} ncclProfilerP2pApi_v5_t;

typedef struct { /* v5 and userTag */
  const char *func;
  size_t count;
  const char *datatype;
  void *stream;
  ncclProfilerBool_t graphCaptured;
  uint64_t userTag;
} ncclProfilerP2pApi_v7_t;

typedef struct { /* also v6, v7 */
  void *stream;
} ncclProfilerKernelLaunch_v5_t;

typedef struct {
  uint64_t seqNumber;
  const char *func;
  void const *sendBuff;
  void *recvBuff;
  size_t count;
  int root;
  const char *datatype;
  const char *syncStrategy;
  ncclProfilerBool_t intraBatchSync;
  uint32_t batchSize;
  uint32_t numBatches;
  uint32_t ceSeqNum;
  void *stream;
} ncclProfilerCeColl_v6_t;

typedef struct { /* v6 and userTag */
  uint64_t seqNumber;
  const char *func;
  void const *sendBuff;
  void *recvBuff;
  size_t count;
  int root;
  const char *datatype;
  const char *syncStrategy;
  ncclProfilerBool_t intraBatchSync;
  uint32_t batchSize;
  uint32_t numBatches;
  uint32_t ceSeqNum;
  void *stream;
  uint64_t userTag;
} ncclProfilerCeColl_v7_t;

typedef struct { /* also v7 */
  ncclProfilerBool_t isComplete;
  int nRanks;
} ncclProfilerCeCollSync_v6_t;

typedef struct { /* also v7 */
  int numOps;
  size_t totalBytes;
  ncclProfilerBool_t useIntraSync;
} ncclProfilerCeCollBatch_v6_t;

typedef struct {
  uint8_t channelId;
  uint8_t phaseId;
  const char *phaseName;
  uint64_t pTimer; /* GPU globaltimer, ns */
} ncclProfilerKernelPhase_v7_t;

/* ---- descriptors ------------------------------------------------------------------------------------ */

typedef struct { /* 2.23.4 */
  uint8_t type;
  void *parentObj;
  int rank;
  union {
    ncclProfilerColl_v1_t coll;
    ncclProfilerP2p_v1_t p2p;
    ncclProfilerProxyOp_v1_t proxyOp;
    ncclProfilerProxyStep_v1_t proxyStep;
  };
} ncclProfilerEventDescr_v1_t;

typedef struct { /* 2.24, 2.25: strings instead of numbers */
  uint8_t type;
  void *parentObj;
  int rank;
  union {
    ncclProfilerColl_v2_t coll;
    ncclProfilerP2p_v2_t p2p;
    ncclProfilerProxyOp_v1_t proxyOp;
    ncclProfilerProxyStep_v1_t proxyStep;
  };
} ncclProfilerEventDescr_v2_t;

typedef struct { /* 2.26: kernel channels, net plugins */
  uint8_t type;
  void *parentObj;
  int rank;
  union {
    ncclProfilerColl_v3_t coll;
    ncclProfilerP2p_v2_t p2p;
    ncclProfilerProxyOp_v1_t proxyOp;
    ncclProfilerProxyStep_v1_t proxyStep;
    ncclProfilerKernelCh_v3_t kernelCh;
    ncclProfilerNetPlugin_v3_t netPlugin;
  };
} ncclProfilerEventDescr_v3_t;

typedef struct { /* 2.27: GPU times */
  uint8_t type;
  void *parentObj;
  int rank;
  union {
    ncclProfilerColl_v4_t coll;
    ncclProfilerP2p_v4_t p2p;
    ncclProfilerProxyOp_v1_t proxyOp;
    ncclProfilerProxyStep_v1_t proxyStep;
    ncclProfilerKernelCh_v4_t kernelCh;
    ncclProfilerNetPlugin_v3_t netPlugin;
  };
} ncclProfilerEventDescr_v4_t;

typedef struct { /* 2.28: API calls and kernel launches; parents are API calls */
  uint64_t type;
  void *parentObj;
  int rank;
  union {
    ncclProfilerGroupApi_v5_t groupApi;
    ncclProfilerCollApi_v5_t collApi;
    ncclProfilerP2pApi_v5_t p2pApi;
    ncclProfilerKernelLaunch_v5_t kernelLaunch;
    ncclProfilerColl_v5_t coll;
    ncclProfilerP2p_v5_t p2p;
    ncclProfilerProxyOp_v1_t proxyOp;
    ncclProfilerProxyStep_v1_t proxyStep;
    ncclProfilerKernelCh_v4_t kernelCh;
    ncclProfilerNetPlugin_v3_t netPlugin;
  };
} ncclProfilerEventDescr_v5_t;

typedef struct { /* 2.29, 2.30: v5 and copy-engine collectives */
  uint64_t type;
  void *parentObj;
  int rank;
  union {
    ncclProfilerGroupApi_v5_t groupApi;
    ncclProfilerCollApi_v5_t collApi;
    ncclProfilerP2pApi_v5_t p2pApi;
    ncclProfilerKernelLaunch_v5_t kernelLaunch;
    ncclProfilerColl_v5_t coll;
    ncclProfilerP2p_v5_t p2p;
    ncclProfilerProxyOp_v1_t proxyOp;
    ncclProfilerProxyStep_v1_t proxyStep;
    ncclProfilerKernelCh_v4_t kernelCh;
    ncclProfilerNetPlugin_v3_t netPlugin;
    ncclProfilerCeColl_v6_t ceColl;
    ncclProfilerCeCollSync_v6_t ceCollSync;
    ncclProfilerCeCollBatch_v6_t ceCollBatch;
  };
} ncclProfilerEventDescr_v6_t;

typedef struct { /* 2.31, 2.32: v6, user tags, kernel phases. Forks have other structures of this name! */
  uint64_t type;
  void *parentObj;
  int rank;
  union {
    ncclProfilerGroupApi_v5_t groupApi;
    ncclProfilerCollApi_v7_t collApi;
    ncclProfilerP2pApi_v7_t p2pApi;
    ncclProfilerKernelLaunch_v5_t kernelLaunch;
    ncclProfilerColl_v7_t coll;
    ncclProfilerP2p_v7_t p2p;
    ncclProfilerProxyOp_v1_t proxyOp;
    ncclProfilerProxyStep_v1_t proxyStep;
    ncclProfilerKernelCh_v4_t kernelCh;
    ncclProfilerNetPlugin_v3_t netPlugin;
    ncclProfilerCeColl_v7_t ceColl;
    ncclProfilerCeCollSync_v6_t ceCollSync;
    ncclProfilerCeCollBatch_v6_t ceCollBatch;
    ncclProfilerKernelPhase_v7_t kernelPhase;
  };
} ncclProfilerEventDescr_v7_t;

/* ---- arguments of states: may be NULL in every version ------------------------------------------------ */

typedef struct {
  size_t transSize; /* cumulative */
  int steps;
} ncclProfilerProxyOpArgs_v1_t;

typedef struct {
  int appendedProxyOps;
} ncclProfilerProxyCtrlArgs_v1_t;

typedef struct {
  size_t transSize; /* of the last transfer */
} ncclProfilerProxyStepArgs_v4_t;

typedef struct {
  void *data;
} ncclProfilerNetPluginArgs_v4_t;

typedef struct {
  uint64_t pTimer; /* GPU globaltimer, ns */
} ncclProfilerKernelChArgs_v4_t;

typedef union { /* v1 to v3 */
  ncclProfilerProxyOpArgs_v1_t proxyOp;
  ncclProfilerProxyCtrlArgs_v1_t proxyCtrl;
} ncclProfilerEventStateArgs_v1_t;
typedef ncclProfilerEventStateArgs_v1_t ncclProfilerEventStateArgs_v2_t;
typedef ncclProfilerEventStateArgs_v1_t ncclProfilerEventStateArgs_v3_t;

typedef union { /* v4 to v7 */
  ncclProfilerProxyStepArgs_v4_t proxyStep;
  ncclProfilerProxyCtrlArgs_v1_t proxyCtrl;
  ncclProfilerNetPluginArgs_v4_t netPlugin;
  ncclProfilerKernelChArgs_v4_t kernelCh;
} ncclProfilerEventStateArgs_v4_t;
typedef ncclProfilerEventStateArgs_v4_t ncclProfilerEventStateArgs_v5_t;
typedef ncclProfilerEventStateArgs_v4_t ncclProfilerEventStateArgs_v6_t;
typedef ncclProfilerEventStateArgs_v4_t ncclProfilerEventStateArgs_v7_t;

/* ---- data of net plugin events ------------------------------------------------------------------------ */

/* netPlugin.id of the plugins whose data we know: (plugin << 16) | version of the data. */
typedef enum {
  ncclProfilerNetIbId_v1 = (1 << 16) | 1,
  ncclProfilerNetSocketId_v1 = (2 << 16) | 1
} ncclProfilerNetId_t;

typedef struct {
  int device;
  uint64_t wr_id;
  int opcode;
  int qpNum;
  size_t length;
} ncclProfilerNetIbQp_v1_t;

typedef struct {
  uint8_t type; /* 1: qp */
  union {
    ncclProfilerNetIbQp_v1_t qp;
  };
} ncclProfilerNetIbDescr_v1_t;

typedef struct {
  int fd;
  int op;
  size_t length;
} ncclProfilerNetSock_v1_t;

typedef struct {
  uint8_t type; /* 1: sock */
  union {
    ncclProfilerNetSock_v1_t sock;
  };
} ncclProfilerNetSockDescr_v1_t;

/* ---- function tables ---------------------------------------------------------------------------------- */

typedef struct {
  const char *name;
  ncclResult_t (*init)(void **context, int *eActivationMask);
  ncclResult_t (*startEvent)(void *context, void **eHandle, ncclProfilerEventDescr_v1_t *eDescr);
  ncclResult_t (*stopEvent)(void *eHandle);
  ncclResult_t (*recordEventState)(void *eHandle, ncclProfilerEventState_v1_t eState,
                                   ncclProfilerEventStateArgs_v1_t *eStateArgs);
  ncclResult_t (*finalize)(void *context);
} ncclProfiler_v1_t;

typedef struct {
  const char *name;
  ncclResult_t (*init)(void **context, int *eActivationMask);
  ncclResult_t (*startEvent)(void *context, void **eHandle, ncclProfilerEventDescr_v2_t *eDescr);
  ncclResult_t (*stopEvent)(void *eHandle);
  ncclResult_t (*recordEventState)(void *eHandle, ncclProfilerEventState_v2_t eState,
                                   ncclProfilerEventStateArgs_v2_t *eStateArgs);
  ncclResult_t (*finalize)(void *context);
} ncclProfiler_v2_t;

typedef struct {
  const char *name;
  ncclResult_t (*init)(void **context, int *eActivationMask);
  ncclResult_t (*startEvent)(void *context, void **eHandle, ncclProfilerEventDescr_v3_t *eDescr);
  ncclResult_t (*stopEvent)(void *eHandle);
  ncclResult_t (*recordEventState)(void *eHandle, ncclProfilerEventState_v3_t eState,
                                   ncclProfilerEventStateArgs_v3_t *eStateArgs);
  ncclResult_t (*finalize)(void *context);
} ncclProfiler_v3_t;

typedef struct {
  const char *name;
  ncclResult_t (*init)(void **context, int *eActivationMask, const char *commName, uint64_t commHash, int nNodes,
                       int nranks, int rank, ncclDebugLogger_t logfn);
  ncclResult_t (*startEvent)(void *context, void **eHandle, ncclProfilerEventDescr_v4_t *eDescr);
  ncclResult_t (*stopEvent)(void *eHandle);
  ncclResult_t (*recordEventState)(void *eHandle, ncclProfilerEventState_v4_t eState,
                                   ncclProfilerEventStateArgs_v4_t *eStateArgs);
  ncclResult_t (*finalize)(void *context);
} ncclProfiler_v4_t;

typedef struct { /* init: the arguments of v4 in another order */
  const char *name;
  ncclResult_t (*init)(void **context, uint64_t commId, int *eActivationMask, const char *commName, int nNodes,
                       int nranks, int rank, ncclDebugLogger_t logfn);
  ncclResult_t (*startEvent)(void *context, void **eHandle, ncclProfilerEventDescr_v5_t *eDescr);
  ncclResult_t (*stopEvent)(void *eHandle);
  ncclResult_t (*recordEventState)(void *eHandle, ncclProfilerEventState_v5_t eState,
                                   ncclProfilerEventStateArgs_v5_t *eStateArgs);
  ncclResult_t (*finalize)(void *context);
} ncclProfiler_v5_t;

typedef struct {
  const char *name;
  ncclResult_t (*init)(void **context, uint64_t commId, int *eActivationMask, const char *commName, int nNodes,
                       int nranks, int rank, ncclDebugLogger_t logfn);
  ncclResult_t (*startEvent)(void *context, void **eHandle, ncclProfilerEventDescr_v6_t *eDescr);
  ncclResult_t (*stopEvent)(void *eHandle);
  ncclResult_t (*recordEventState)(void *eHandle, ncclProfilerEventState_v6_t eState,
                                   ncclProfilerEventStateArgs_v6_t *eStateArgs);
  ncclResult_t (*finalize)(void *context);
} ncclProfiler_v6_t;

typedef struct {
  const char *name;
  ncclResult_t (*init)(void **context, uint64_t commId, int *eActivationMask, const char *commName, int nNodes,
                       int nranks, int rank, ncclDebugLogger_t logfn);
  ncclResult_t (*startEvent)(void *context, void **eHandle, ncclProfilerEventDescr_v7_t *eDescr);
  ncclResult_t (*stopEvent)(void *eHandle);
  ncclResult_t (*recordEventState)(void *eHandle, ncclProfilerEventState_v7_t eState,
                                   ncclProfilerEventStateArgs_v7_t *eStateArgs);
  ncclResult_t (*finalize)(void *context);
} ncclProfiler_v7_t;

#ifdef __cplusplus
}
#endif

#endif /* NCCL_PROFILER_OTF2_WRAPPER_H_ */
