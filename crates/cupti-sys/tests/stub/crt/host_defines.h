/* Stands in for the header of the same name where a package of CUDA's headers leaves it out: enough to read layouts. */
#ifndef CRT_HOST_DEFINES_H
#define CRT_HOST_DEFINES_H
#define CUDARTAPI
#define CUDARTAPI_CDECL
#define __host__
#define __device__
#define __device_builtin__
#define __device_builtin_texture_type__
#define __device_builtin_surface_type__
#define __cudart_builtin__
#define __builtin_align__(bytes) __attribute__((aligned(bytes)))
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __forceinline__ inline
#define __no_return__ __attribute__((noreturn))
#define __specialization_static static
#endif
