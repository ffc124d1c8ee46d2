//! Constants of CUPTI's interface that are equal in all releases from CUDA 11.8 to 13.5.

macro_rules! constants {
    ($($(#[$doc:meta])* $name:ident: $type:ty = $value:literal, $c_name:literal;)*) => {
        $(
            #[doc = concat!("`", $c_name, "`.")]
            $(#[$doc])*
            pub const $name: $type = $value;
        )*

        /// All constants, by their names in the headers.
        pub const ALL: &[(&str, u32)] = &[$(($c_name, $name as u32)),*];
    };
}

constants! {
    KIND_MEMCPY: u32 = 1, "CUPTI_ACTIVITY_KIND_MEMCPY";
    /// Activity kind: all driver functions. Enabling it undoes an earlier choice of single functions.
    KIND_DRIVER: u32 = 4, "CUPTI_ACTIVITY_KIND_DRIVER";
    KIND_RUNTIME: u32 = 5, "CUPTI_ACTIVITY_KIND_RUNTIME";
    /// Activity kind: kernels, which run concurrently as they would without CUPTI.
    KIND_CONCURRENT_KERNEL: u32 = 10, "CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL";
    /// Activity kind: copies between devices; enabled together with [`KIND_MEMCPY`].
    KIND_MEMCPY2: u32 = 22, "CUPTI_ACTIVITY_KIND_MEMCPY2";
    /// Activity kind: links the call of a CUDA function to one of the tool's own ids.
    KIND_EXTERNAL_CORRELATION: u32 = 39, "CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION";

    /// Kind of external id that PyTorch's profiler does not use: it uses the first two custom ones.
    EXTERNAL_CUSTOM2: u32 = 5, "CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM2";

    /// Attribute: buffers passed to CUPTI are zeroed (u8).
    ATTRIBUTE_ZEROED_OUT_ACTIVITY_BUFFER: u32 = 5, "CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER";

    CBID_LAUNCH_KERNEL: u32 = 307, "CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel";
    CBID_LAUNCH_KERNEL_PTSZ: u32 = 442, "CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel_ptsz";
    CBID_LAUNCH_KERNEL_EX: u32 = 652, "CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx";
    CBID_LAUNCH_KERNEL_EX_PTSZ: u32 = 653, "CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx_ptsz";

    CBID_MEMCPY_ASYNC: u32 = 41, "CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyAsync_v3020";
    CBID_MEMCPY_ASYNC_PTSZ: u32 = 225, "CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyAsync_ptsz_v7000";
    CBID_MEMCPY_BATCH_12: u32 = 482, "CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyBatchAsync_v12080";
    CBID_MEMCPY_BATCH_12_PTSZ: u32 = 483, "CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyBatchAsync_ptsz_v12080";
    CBID_MEMCPY_BATCH_13: u32 = 509, "CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyBatchAsync_v13000";
    CBID_MEMCPY_BATCH_13_PTSZ: u32 = 510, "CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyBatchAsync_ptsz_v13000";

    /// Flag of `cuptiActivityFlushAll`: also return buffers with unfinished records.
    FLUSH_FORCED: u32 = 1, "CUPTI_ACTIVITY_FLAG_FLUSH_FORCED";
}

/// Driver functions that launch kernels.
pub const CBIDS_OF_LAUNCHES: [u32; 4] =
    [CBID_LAUNCH_KERNEL, CBID_LAUNCH_KERNEL_PTSZ, CBID_LAUNCH_KERNEL_EX, CBID_LAUNCH_KERNEL_EX_PTSZ];
/// Runtime functions that copy. Early releases lack those that copy in batches.
pub const CBIDS_OF_COPIES: [u32; 6] = [
    CBID_MEMCPY_ASYNC,
    CBID_MEMCPY_ASYNC_PTSZ,
    CBID_MEMCPY_BATCH_12,
    CBID_MEMCPY_BATCH_12_PTSZ,
    CBID_MEMCPY_BATCH_13,
    CBID_MEMCPY_BATCH_13_PTSZ,
];

/// Since this version (CUDA 13.3) the functions for subscribers (`…_v2`) are complete and exclude the global ones.
pub const VERSION_SUBSCRIBER_FUNCTIONS: u32 = 130_300;
/// Since this version (CUDA 13.3) a single function can be enabled in a process that has a context. Earlier releases
/// accept that and record nothing, unless all functions of the kind are enabled.
pub const VERSION_SINGLE_FUNCTIONS: u32 = 130_300;
/// No release has a function with this number.
pub const CBIDS_END: u32 = 4096;
/// Since this version (CUDA 12.9) a tool may refuse to provide a buffer; earlier releases can crash on that.
pub const VERSION_BUFFER_MAY_BE_REFUSED: u32 = 27;
