/* A CUDA driver that does nothing, at once: what calling it costs is next to nothing, and what is left is ours.
 * Linked with the name libcuda.so.1 and preloaded, it is the driver of the process. */
#include <string.h>

typedef unsigned long long handle;

int cuDriverGetVersion(int *version) { return *version = 12080, 0; }
int cuCtxGetCurrent(handle *context) { return *context = 0xc0, 0; }
int cuCtxGetDevice(int *device) { return *device = 0, 0; }
int cuCtxPushCurrent_v2(handle context) { return (void)context, 0; }
int cuCtxPopCurrent_v2(handle *context) { return *context = 0xc0, 0; }
int cuDeviceGetName(char *name, int room, int device) { return (void)device, strncpy(name, "quick", room), 0; }
int cuThreadExchangeStreamCaptureMode(int *mode) { return (void)mode, 0; }
int cuStreamIsCapturing(handle stream, int *status) { return (void)stream, *status = 0, 0; }
int cuStreamCreate(handle *stream, unsigned flags) { return (void)flags, *stream = 0x5e, 0; }
int cuStreamDestroy_v2(handle stream) { return (void)stream, 0; }
int cuEventCreate(handle *event, unsigned flags) { static handle next; return (void)flags, *event = ++next, 0; }
int cuEventRecord(handle event, handle stream) { return (void)event, (void)stream, 0; }
int cuEventQuery(handle event) { return (void)event, 0; }
int cuEventElapsedTime(float *ms, handle from, handle to) { return (void)from, (void)to, *ms = 1, 0; }
int cuEventDestroy_v2(handle event) { return (void)event, 0; }
