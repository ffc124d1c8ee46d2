pub const ncclSuccess: ncclResult_t = 0;
pub const ncclUnhandledCudaError: ncclResult_t = 1;
pub const ncclSystemError: ncclResult_t = 2;
pub const ncclInternalError: ncclResult_t = 3;
pub const ncclInvalidArgument: ncclResult_t = 4;
pub const ncclInvalidUsage: ncclResult_t = 5;
pub const ncclRemoteError: ncclResult_t = 6;
pub const ncclInProgress: ncclResult_t = 7;
pub type ncclResult_t = ::core::ffi::c_uint;
pub const NCCL_LOG_NONE: ncclDebugLogLevel = 0;
pub const NCCL_LOG_VERSION: ncclDebugLogLevel = 1;
pub const NCCL_LOG_WARN: ncclDebugLogLevel = 2;
pub const NCCL_LOG_INFO: ncclDebugLogLevel = 3;
pub const NCCL_LOG_ABORT: ncclDebugLogLevel = 4;
pub const NCCL_LOG_TRACE: ncclDebugLogLevel = 5;
pub type ncclDebugLogLevel = ::core::ffi::c_uint;
pub const NCCL_INIT: _bindgen_ty_1 = 1;
pub const NCCL_ENV: _bindgen_ty_1 = 128;
pub const NCCL_PROFILE: _bindgen_ty_1 = 16384;
pub type _bindgen_ty_1 = ::core::ffi::c_uint;
pub type ncclDebugLogger_t = ::core::option::Option<
    unsafe extern "C" fn(
        level: ncclDebugLogLevel,
        flags: ::core::ffi::c_ulong,
        file: *const ::core::ffi::c_char,
        line: ::core::ffi::c_int,
        fmt: *const ::core::ffi::c_char,
        ...
    ),
>;
pub type ncclProfilerBool_t = u8;
pub const ncclProfileGroup: _bindgen_ty_2 = 1;
pub const ncclProfileColl: _bindgen_ty_2 = 2;
pub const ncclProfileP2p: _bindgen_ty_2 = 4;
pub const ncclProfileProxyOp: _bindgen_ty_2 = 8;
pub const ncclProfileProxyStep: _bindgen_ty_2 = 16;
pub const ncclProfileProxyCtrl: _bindgen_ty_2 = 32;
pub const ncclProfileKernelCh: _bindgen_ty_2 = 64;
pub const ncclProfileNetPlugin: _bindgen_ty_2 = 128;
pub const ncclProfileGroupApi: _bindgen_ty_2 = 256;
pub const ncclProfileCollApi: _bindgen_ty_2 = 512;
pub const ncclProfileP2pApi: _bindgen_ty_2 = 1024;
pub const ncclProfileKernelLaunch: _bindgen_ty_2 = 2048;
pub const ncclProfileCeColl: _bindgen_ty_2 = 4096;
pub const ncclProfileCeSync: _bindgen_ty_2 = 8192;
pub const ncclProfileCeBatch: _bindgen_ty_2 = 16384;
pub const ncclProfileKernelPhase: _bindgen_ty_2 = 32768;
pub type _bindgen_ty_2 = ::core::ffi::c_uint;
pub const ncclProfilerProxyOpSendPosted: ncclProfilerEventState_t = 0;
pub const ncclProfilerProxyOpSendRemFifoWait: ncclProfilerEventState_t = 1;
pub const ncclProfilerProxyOpSendTransmitted: ncclProfilerEventState_t = 2;
pub const ncclProfilerProxyOpSendDone: ncclProfilerEventState_t = 3;
pub const ncclProfilerProxyOpRecvPosted: ncclProfilerEventState_t = 4;
pub const ncclProfilerProxyOpRecvReceived: ncclProfilerEventState_t = 5;
pub const ncclProfilerProxyOpRecvTransmitted: ncclProfilerEventState_t = 6;
pub const ncclProfilerProxyOpRecvDone: ncclProfilerEventState_t = 7;
pub const ncclProfilerProxyStepSendGPUWait: ncclProfilerEventState_t = 8;
pub const ncclProfilerProxyStepSendWait: ncclProfilerEventState_t = 9;
pub const ncclProfilerProxyStepRecvWait: ncclProfilerEventState_t = 10;
pub const ncclProfilerProxyStepRecvFlushWait: ncclProfilerEventState_t = 11;
pub const ncclProfilerProxyStepRecvGPUWait: ncclProfilerEventState_t = 12;
pub const ncclProfilerProxyCtrlIdle: ncclProfilerEventState_t = 13;
pub const ncclProfilerProxyCtrlActive: ncclProfilerEventState_t = 14;
pub const ncclProfilerProxyCtrlSleep: ncclProfilerEventState_t = 15;
pub const ncclProfilerProxyCtrlWakeup: ncclProfilerEventState_t = 16;
pub const ncclProfilerProxyCtrlAppend: ncclProfilerEventState_t = 17;
pub const ncclProfilerProxyCtrlAppendEnd: ncclProfilerEventState_t = 18;
pub const ncclProfilerProxyOpInProgress_v4: ncclProfilerEventState_t = 19;
pub const ncclProfilerProxyStepSendPeerWait_v4: ncclProfilerEventState_t = 20;
pub const ncclProfilerNetPluginUpdate: ncclProfilerEventState_t = 21;
pub const ncclProfilerKernelChStop: ncclProfilerEventState_t = 22;
pub const ncclProfilerGroupStartApiStop: ncclProfilerEventState_t = 23;
pub const ncclProfilerGroupEndApiStart: ncclProfilerEventState_t = 24;
pub const ncclProfilerCeCollStart: ncclProfilerEventState_t = 25;
pub const ncclProfilerCeCollComplete: ncclProfilerEventState_t = 26;
pub const ncclProfilerCeSyncStart: ncclProfilerEventState_t = 27;
pub const ncclProfilerCeSyncComplete: ncclProfilerEventState_t = 28;
pub const ncclProfilerCeBatchStart: ncclProfilerEventState_t = 29;
pub const ncclProfilerCeBatchComplete: ncclProfilerEventState_t = 30;
pub const ncclProfilerKernelPhaseStop: ncclProfilerEventState_t = 31;
pub type ncclProfilerEventState_t = ::core::ffi::c_uint;
pub use self::ncclProfilerEventState_t as ncclProfilerEventState_v1_t;
pub use self::ncclProfilerEventState_t as ncclProfilerEventState_v2_t;
pub use self::ncclProfilerEventState_t as ncclProfilerEventState_v3_t;
pub use self::ncclProfilerEventState_t as ncclProfilerEventState_v4_t;
pub use self::ncclProfilerEventState_t as ncclProfilerEventState_v5_t;
pub use self::ncclProfilerEventState_t as ncclProfilerEventState_v6_t;
pub use self::ncclProfilerEventState_t as ncclProfilerEventState_v7_t;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct ncclProfilerColl_v1_t {
    pub name: *const ::core::ffi::c_char,
    pub commHash: u64,
    pub seqNumber: u64,
    pub func: u8,
    pub sendBuff: *const ::core::ffi::c_void,
    pub recvBuff: *mut ::core::ffi::c_void,
    pub count: usize,
    pub root: ::core::ffi::c_int,
    pub datatype: u8,
    pub op: u32,
    pub trafficBytes: usize,
    pub nMaxChannels: u8,
    pub nWarps: u8,
    pub algo: u8,
    pub proto: u8,
    pub isCollnet: ::core::ffi::c_int,
    pub isNvls: ::core::ffi::c_int,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    [
        "Size of ncclProfilerColl_v1_t",
    ][::core::mem::size_of::<ncclProfilerColl_v1_t>() - 96usize];
    [
        "Alignment of ncclProfilerColl_v1_t",
    ][::core::mem::align_of::<ncclProfilerColl_v1_t>() - 8usize];
    [
        "Offset of field: ncclProfilerColl_v1_t::name",
    ][::core::mem::offset_of!(ncclProfilerColl_v1_t, name) - 0usize];
    [
        "Offset of field: ncclProfilerColl_v1_t::commHash",
    ][::core::mem::offset_of!(ncclProfilerColl_v1_t, commHash) - 8usize];
    [
        "Offset of field: ncclProfilerColl_v1_t::seqNumber",
    ][::core::mem::offset_of!(ncclProfilerColl_v1_t, seqNumber) - 16usize];
    [
        "Offset of field: ncclProfilerColl_v1_t::func",
    ][::core::mem::offset_of!(ncclProfilerColl_v1_t, func) - 24usize];
    [
        "Offset of field: ncclProfilerColl_v1_t::sendBuff",
    ][::core::mem::offset_of!(ncclProfilerColl_v1_t, sendBuff) - 32usize];
    [
        "Offset of field: ncclProfilerColl_v1_t::recvBuff",
    ][::core::mem::offset_of!(ncclProfilerColl_v1_t, recvBuff) - 40usize];
    [
        "Offset of field: ncclProfilerColl_v1_t::count",
    ][::core::mem::offset_of!(ncclProfilerColl_v1_t, count) - 48usize];
    [
        "Offset of field: ncclProfilerColl_v1_t::root",
    ][::core::mem::offset_of!(ncclProfilerColl_v1_t, root) - 56usize];
    [
        "Offset of field: ncclProfilerColl_v1_t::datatype",
    ][::core::mem::offset_of!(ncclProfilerColl_v1_t, datatype) - 60usize];
    [
        "Offset of field: ncclProfilerColl_v1_t::op",
    ][::core::mem::offset_of!(ncclProfilerColl_v1_t, op) - 64usize];
    [
        "Offset of field: ncclProfilerColl_v1_t::trafficBytes",
    ][::core::mem::offset_of!(ncclProfilerColl_v1_t, trafficBytes) - 72usize];
    [
        "Offset of field: ncclProfilerColl_v1_t::nMaxChannels",
    ][::core::mem::offset_of!(ncclProfilerColl_v1_t, nMaxChannels) - 80usize];
    [
        "Offset of field: ncclProfilerColl_v1_t::nWarps",
    ][::core::mem::offset_of!(ncclProfilerColl_v1_t, nWarps) - 81usize];
    [
        "Offset of field: ncclProfilerColl_v1_t::algo",
    ][::core::mem::offset_of!(ncclProfilerColl_v1_t, algo) - 82usize];
    [
        "Offset of field: ncclProfilerColl_v1_t::proto",
    ][::core::mem::offset_of!(ncclProfilerColl_v1_t, proto) - 83usize];
    [
        "Offset of field: ncclProfilerColl_v1_t::isCollnet",
    ][::core::mem::offset_of!(ncclProfilerColl_v1_t, isCollnet) - 84usize];
    [
        "Offset of field: ncclProfilerColl_v1_t::isNvls",
    ][::core::mem::offset_of!(ncclProfilerColl_v1_t, isNvls) - 88usize];
};
impl Default for ncclProfilerColl_v1_t {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct ncclProfilerColl_v2_t {
    pub name: *const ::core::ffi::c_char,
    pub commHash: u64,
    pub seqNumber: u64,
    pub func: *const ::core::ffi::c_char,
    pub sendBuff: *const ::core::ffi::c_void,
    pub recvBuff: *mut ::core::ffi::c_void,
    pub count: usize,
    pub root: ::core::ffi::c_int,
    pub datatype: *const ::core::ffi::c_char,
    pub trafficBytes: usize,
    pub nMaxChannels: u8,
    pub nWarps: u8,
    pub algo: *const ::core::ffi::c_char,
    pub proto: *const ::core::ffi::c_char,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    [
        "Size of ncclProfilerColl_v2_t",
    ][::core::mem::size_of::<ncclProfilerColl_v2_t>() - 104usize];
    [
        "Alignment of ncclProfilerColl_v2_t",
    ][::core::mem::align_of::<ncclProfilerColl_v2_t>() - 8usize];
    [
        "Offset of field: ncclProfilerColl_v2_t::name",
    ][::core::mem::offset_of!(ncclProfilerColl_v2_t, name) - 0usize];
    [
        "Offset of field: ncclProfilerColl_v2_t::commHash",
    ][::core::mem::offset_of!(ncclProfilerColl_v2_t, commHash) - 8usize];
    [
        "Offset of field: ncclProfilerColl_v2_t::seqNumber",
    ][::core::mem::offset_of!(ncclProfilerColl_v2_t, seqNumber) - 16usize];
    [
        "Offset of field: ncclProfilerColl_v2_t::func",
    ][::core::mem::offset_of!(ncclProfilerColl_v2_t, func) - 24usize];
    [
        "Offset of field: ncclProfilerColl_v2_t::sendBuff",
    ][::core::mem::offset_of!(ncclProfilerColl_v2_t, sendBuff) - 32usize];
    [
        "Offset of field: ncclProfilerColl_v2_t::recvBuff",
    ][::core::mem::offset_of!(ncclProfilerColl_v2_t, recvBuff) - 40usize];
    [
        "Offset of field: ncclProfilerColl_v2_t::count",
    ][::core::mem::offset_of!(ncclProfilerColl_v2_t, count) - 48usize];
    [
        "Offset of field: ncclProfilerColl_v2_t::root",
    ][::core::mem::offset_of!(ncclProfilerColl_v2_t, root) - 56usize];
    [
        "Offset of field: ncclProfilerColl_v2_t::datatype",
    ][::core::mem::offset_of!(ncclProfilerColl_v2_t, datatype) - 64usize];
    [
        "Offset of field: ncclProfilerColl_v2_t::trafficBytes",
    ][::core::mem::offset_of!(ncclProfilerColl_v2_t, trafficBytes) - 72usize];
    [
        "Offset of field: ncclProfilerColl_v2_t::nMaxChannels",
    ][::core::mem::offset_of!(ncclProfilerColl_v2_t, nMaxChannels) - 80usize];
    [
        "Offset of field: ncclProfilerColl_v2_t::nWarps",
    ][::core::mem::offset_of!(ncclProfilerColl_v2_t, nWarps) - 81usize];
    [
        "Offset of field: ncclProfilerColl_v2_t::algo",
    ][::core::mem::offset_of!(ncclProfilerColl_v2_t, algo) - 88usize];
    [
        "Offset of field: ncclProfilerColl_v2_t::proto",
    ][::core::mem::offset_of!(ncclProfilerColl_v2_t, proto) - 96usize];
};
impl Default for ncclProfilerColl_v2_t {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct ncclProfilerColl_v3_t {
    pub name: *const ::core::ffi::c_char,
    pub commHash: u64,
    pub seqNumber: u64,
    pub func: *const ::core::ffi::c_char,
    pub sendBuff: *const ::core::ffi::c_void,
    pub recvBuff: *mut ::core::ffi::c_void,
    pub count: usize,
    pub root: ::core::ffi::c_int,
    pub datatype: *const ::core::ffi::c_char,
    pub nMaxChannels: u8,
    pub nWarps: u8,
    pub algo: *const ::core::ffi::c_char,
    pub proto: *const ::core::ffi::c_char,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    [
        "Size of ncclProfilerColl_v3_t",
    ][::core::mem::size_of::<ncclProfilerColl_v3_t>() - 96usize];
    [
        "Alignment of ncclProfilerColl_v3_t",
    ][::core::mem::align_of::<ncclProfilerColl_v3_t>() - 8usize];
    [
        "Offset of field: ncclProfilerColl_v3_t::name",
    ][::core::mem::offset_of!(ncclProfilerColl_v3_t, name) - 0usize];
    [
        "Offset of field: ncclProfilerColl_v3_t::commHash",
    ][::core::mem::offset_of!(ncclProfilerColl_v3_t, commHash) - 8usize];
    [
        "Offset of field: ncclProfilerColl_v3_t::seqNumber",
    ][::core::mem::offset_of!(ncclProfilerColl_v3_t, seqNumber) - 16usize];
    [
        "Offset of field: ncclProfilerColl_v3_t::func",
    ][::core::mem::offset_of!(ncclProfilerColl_v3_t, func) - 24usize];
    [
        "Offset of field: ncclProfilerColl_v3_t::sendBuff",
    ][::core::mem::offset_of!(ncclProfilerColl_v3_t, sendBuff) - 32usize];
    [
        "Offset of field: ncclProfilerColl_v3_t::recvBuff",
    ][::core::mem::offset_of!(ncclProfilerColl_v3_t, recvBuff) - 40usize];
    [
        "Offset of field: ncclProfilerColl_v3_t::count",
    ][::core::mem::offset_of!(ncclProfilerColl_v3_t, count) - 48usize];
    [
        "Offset of field: ncclProfilerColl_v3_t::root",
    ][::core::mem::offset_of!(ncclProfilerColl_v3_t, root) - 56usize];
    [
        "Offset of field: ncclProfilerColl_v3_t::datatype",
    ][::core::mem::offset_of!(ncclProfilerColl_v3_t, datatype) - 64usize];
    [
        "Offset of field: ncclProfilerColl_v3_t::nMaxChannels",
    ][::core::mem::offset_of!(ncclProfilerColl_v3_t, nMaxChannels) - 72usize];
    [
        "Offset of field: ncclProfilerColl_v3_t::nWarps",
    ][::core::mem::offset_of!(ncclProfilerColl_v3_t, nWarps) - 73usize];
    [
        "Offset of field: ncclProfilerColl_v3_t::algo",
    ][::core::mem::offset_of!(ncclProfilerColl_v3_t, algo) - 80usize];
    [
        "Offset of field: ncclProfilerColl_v3_t::proto",
    ][::core::mem::offset_of!(ncclProfilerColl_v3_t, proto) - 88usize];
};
impl Default for ncclProfilerColl_v3_t {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct ncclProfilerColl_v4_t {
    pub seqNumber: u64,
    pub func: *const ::core::ffi::c_char,
    pub sendBuff: *const ::core::ffi::c_void,
    pub recvBuff: *mut ::core::ffi::c_void,
    pub count: usize,
    pub root: ::core::ffi::c_int,
    pub datatype: *const ::core::ffi::c_char,
    pub nChannels: u8,
    pub nWarps: u8,
    pub algo: *const ::core::ffi::c_char,
    pub proto: *const ::core::ffi::c_char,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    [
        "Size of ncclProfilerColl_v4_t",
    ][::core::mem::size_of::<ncclProfilerColl_v4_t>() - 80usize];
    [
        "Alignment of ncclProfilerColl_v4_t",
    ][::core::mem::align_of::<ncclProfilerColl_v4_t>() - 8usize];
    [
        "Offset of field: ncclProfilerColl_v4_t::seqNumber",
    ][::core::mem::offset_of!(ncclProfilerColl_v4_t, seqNumber) - 0usize];
    [
        "Offset of field: ncclProfilerColl_v4_t::func",
    ][::core::mem::offset_of!(ncclProfilerColl_v4_t, func) - 8usize];
    [
        "Offset of field: ncclProfilerColl_v4_t::sendBuff",
    ][::core::mem::offset_of!(ncclProfilerColl_v4_t, sendBuff) - 16usize];
    [
        "Offset of field: ncclProfilerColl_v4_t::recvBuff",
    ][::core::mem::offset_of!(ncclProfilerColl_v4_t, recvBuff) - 24usize];
    [
        "Offset of field: ncclProfilerColl_v4_t::count",
    ][::core::mem::offset_of!(ncclProfilerColl_v4_t, count) - 32usize];
    [
        "Offset of field: ncclProfilerColl_v4_t::root",
    ][::core::mem::offset_of!(ncclProfilerColl_v4_t, root) - 40usize];
    [
        "Offset of field: ncclProfilerColl_v4_t::datatype",
    ][::core::mem::offset_of!(ncclProfilerColl_v4_t, datatype) - 48usize];
    [
        "Offset of field: ncclProfilerColl_v4_t::nChannels",
    ][::core::mem::offset_of!(ncclProfilerColl_v4_t, nChannels) - 56usize];
    [
        "Offset of field: ncclProfilerColl_v4_t::nWarps",
    ][::core::mem::offset_of!(ncclProfilerColl_v4_t, nWarps) - 57usize];
    [
        "Offset of field: ncclProfilerColl_v4_t::algo",
    ][::core::mem::offset_of!(ncclProfilerColl_v4_t, algo) - 64usize];
    [
        "Offset of field: ncclProfilerColl_v4_t::proto",
    ][::core::mem::offset_of!(ncclProfilerColl_v4_t, proto) - 72usize];
};
impl Default for ncclProfilerColl_v4_t {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct ncclProfilerColl_v5_t {
    pub seqNumber: u64,
    pub func: *const ::core::ffi::c_char,
    pub sendBuff: *const ::core::ffi::c_void,
    pub recvBuff: *mut ::core::ffi::c_void,
    pub count: usize,
    pub root: ::core::ffi::c_int,
    pub datatype: *const ::core::ffi::c_char,
    pub nChannels: u8,
    pub nWarps: u8,
    pub algo: *const ::core::ffi::c_char,
    pub proto: *const ::core::ffi::c_char,
    pub parentGroup: *mut ::core::ffi::c_void,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    [
        "Size of ncclProfilerColl_v5_t",
    ][::core::mem::size_of::<ncclProfilerColl_v5_t>() - 88usize];
    [
        "Alignment of ncclProfilerColl_v5_t",
    ][::core::mem::align_of::<ncclProfilerColl_v5_t>() - 8usize];
    [
        "Offset of field: ncclProfilerColl_v5_t::seqNumber",
    ][::core::mem::offset_of!(ncclProfilerColl_v5_t, seqNumber) - 0usize];
    [
        "Offset of field: ncclProfilerColl_v5_t::func",
    ][::core::mem::offset_of!(ncclProfilerColl_v5_t, func) - 8usize];
    [
        "Offset of field: ncclProfilerColl_v5_t::sendBuff",
    ][::core::mem::offset_of!(ncclProfilerColl_v5_t, sendBuff) - 16usize];
    [
        "Offset of field: ncclProfilerColl_v5_t::recvBuff",
    ][::core::mem::offset_of!(ncclProfilerColl_v5_t, recvBuff) - 24usize];
    [
        "Offset of field: ncclProfilerColl_v5_t::count",
    ][::core::mem::offset_of!(ncclProfilerColl_v5_t, count) - 32usize];
    [
        "Offset of field: ncclProfilerColl_v5_t::root",
    ][::core::mem::offset_of!(ncclProfilerColl_v5_t, root) - 40usize];
    [
        "Offset of field: ncclProfilerColl_v5_t::datatype",
    ][::core::mem::offset_of!(ncclProfilerColl_v5_t, datatype) - 48usize];
    [
        "Offset of field: ncclProfilerColl_v5_t::nChannels",
    ][::core::mem::offset_of!(ncclProfilerColl_v5_t, nChannels) - 56usize];
    [
        "Offset of field: ncclProfilerColl_v5_t::nWarps",
    ][::core::mem::offset_of!(ncclProfilerColl_v5_t, nWarps) - 57usize];
    [
        "Offset of field: ncclProfilerColl_v5_t::algo",
    ][::core::mem::offset_of!(ncclProfilerColl_v5_t, algo) - 64usize];
    [
        "Offset of field: ncclProfilerColl_v5_t::proto",
    ][::core::mem::offset_of!(ncclProfilerColl_v5_t, proto) - 72usize];
    [
        "Offset of field: ncclProfilerColl_v5_t::parentGroup",
    ][::core::mem::offset_of!(ncclProfilerColl_v5_t, parentGroup) - 80usize];
};
impl Default for ncclProfilerColl_v5_t {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct ncclProfilerColl_v7_t {
    pub seqNumber: u64,
    pub func: *const ::core::ffi::c_char,
    pub sendBuff: *const ::core::ffi::c_void,
    pub recvBuff: *mut ::core::ffi::c_void,
    pub count: usize,
    pub root: ::core::ffi::c_int,
    pub datatype: *const ::core::ffi::c_char,
    pub nChannels: u8,
    pub nWarps: u8,
    pub algo: *const ::core::ffi::c_char,
    pub proto: *const ::core::ffi::c_char,
    pub parentGroup: *mut ::core::ffi::c_void,
    pub kernelVariant: *const ::core::ffi::c_char,
    pub isSymColl: ncclProfilerBool_t,
    pub userTag: u64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    [
        "Size of ncclProfilerColl_v7_t",
    ][::core::mem::size_of::<ncclProfilerColl_v7_t>() - 112usize];
    [
        "Alignment of ncclProfilerColl_v7_t",
    ][::core::mem::align_of::<ncclProfilerColl_v7_t>() - 8usize];
    [
        "Offset of field: ncclProfilerColl_v7_t::seqNumber",
    ][::core::mem::offset_of!(ncclProfilerColl_v7_t, seqNumber) - 0usize];
    [
        "Offset of field: ncclProfilerColl_v7_t::func",
    ][::core::mem::offset_of!(ncclProfilerColl_v7_t, func) - 8usize];
    [
        "Offset of field: ncclProfilerColl_v7_t::sendBuff",
    ][::core::mem::offset_of!(ncclProfilerColl_v7_t, sendBuff) - 16usize];
    [
        "Offset of field: ncclProfilerColl_v7_t::recvBuff",
    ][::core::mem::offset_of!(ncclProfilerColl_v7_t, recvBuff) - 24usize];
    [
        "Offset of field: ncclProfilerColl_v7_t::count",
    ][::core::mem::offset_of!(ncclProfilerColl_v7_t, count) - 32usize];
    [
        "Offset of field: ncclProfilerColl_v7_t::root",
    ][::core::mem::offset_of!(ncclProfilerColl_v7_t, root) - 40usize];
    [
        "Offset of field: ncclProfilerColl_v7_t::datatype",
    ][::core::mem::offset_of!(ncclProfilerColl_v7_t, datatype) - 48usize];
    [
        "Offset of field: ncclProfilerColl_v7_t::nChannels",
    ][::core::mem::offset_of!(ncclProfilerColl_v7_t, nChannels) - 56usize];
    [
        "Offset of field: ncclProfilerColl_v7_t::nWarps",
    ][::core::mem::offset_of!(ncclProfilerColl_v7_t, nWarps) - 57usize];
    [
        "Offset of field: ncclProfilerColl_v7_t::algo",
    ][::core::mem::offset_of!(ncclProfilerColl_v7_t, algo) - 64usize];
    [
        "Offset of field: ncclProfilerColl_v7_t::proto",
    ][::core::mem::offset_of!(ncclProfilerColl_v7_t, proto) - 72usize];
    [
        "Offset of field: ncclProfilerColl_v7_t::parentGroup",
    ][::core::mem::offset_of!(ncclProfilerColl_v7_t, parentGroup) - 80usize];
    [
        "Offset of field: ncclProfilerColl_v7_t::kernelVariant",
    ][::core::mem::offset_of!(ncclProfilerColl_v7_t, kernelVariant) - 88usize];
    [
        "Offset of field: ncclProfilerColl_v7_t::isSymColl",
    ][::core::mem::offset_of!(ncclProfilerColl_v7_t, isSymColl) - 96usize];
    [
        "Offset of field: ncclProfilerColl_v7_t::userTag",
    ][::core::mem::offset_of!(ncclProfilerColl_v7_t, userTag) - 104usize];
};
impl Default for ncclProfilerColl_v7_t {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct ncclProfilerP2p_v1_t {
    pub name: *const ::core::ffi::c_char,
    pub commHash: u64,
    pub func: u8,
    pub buff: *mut ::core::ffi::c_void,
    pub datatype: u8,
    pub count: usize,
    pub peer: ::core::ffi::c_int,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    [
        "Size of ncclProfilerP2p_v1_t",
    ][::core::mem::size_of::<ncclProfilerP2p_v1_t>() - 56usize];
    [
        "Alignment of ncclProfilerP2p_v1_t",
    ][::core::mem::align_of::<ncclProfilerP2p_v1_t>() - 8usize];
    [
        "Offset of field: ncclProfilerP2p_v1_t::name",
    ][::core::mem::offset_of!(ncclProfilerP2p_v1_t, name) - 0usize];
    [
        "Offset of field: ncclProfilerP2p_v1_t::commHash",
    ][::core::mem::offset_of!(ncclProfilerP2p_v1_t, commHash) - 8usize];
    [
        "Offset of field: ncclProfilerP2p_v1_t::func",
    ][::core::mem::offset_of!(ncclProfilerP2p_v1_t, func) - 16usize];
    [
        "Offset of field: ncclProfilerP2p_v1_t::buff",
    ][::core::mem::offset_of!(ncclProfilerP2p_v1_t, buff) - 24usize];
    [
        "Offset of field: ncclProfilerP2p_v1_t::datatype",
    ][::core::mem::offset_of!(ncclProfilerP2p_v1_t, datatype) - 32usize];
    [
        "Offset of field: ncclProfilerP2p_v1_t::count",
    ][::core::mem::offset_of!(ncclProfilerP2p_v1_t, count) - 40usize];
    [
        "Offset of field: ncclProfilerP2p_v1_t::peer",
    ][::core::mem::offset_of!(ncclProfilerP2p_v1_t, peer) - 48usize];
};
impl Default for ncclProfilerP2p_v1_t {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct ncclProfilerP2p_v2_t {
    pub name: *const ::core::ffi::c_char,
    pub commHash: u64,
    pub func: *const ::core::ffi::c_char,
    pub buff: *mut ::core::ffi::c_void,
    pub datatype: *const ::core::ffi::c_char,
    pub count: usize,
    pub peer: ::core::ffi::c_int,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    [
        "Size of ncclProfilerP2p_v2_t",
    ][::core::mem::size_of::<ncclProfilerP2p_v2_t>() - 56usize];
    [
        "Alignment of ncclProfilerP2p_v2_t",
    ][::core::mem::align_of::<ncclProfilerP2p_v2_t>() - 8usize];
    [
        "Offset of field: ncclProfilerP2p_v2_t::name",
    ][::core::mem::offset_of!(ncclProfilerP2p_v2_t, name) - 0usize];
    [
        "Offset of field: ncclProfilerP2p_v2_t::commHash",
    ][::core::mem::offset_of!(ncclProfilerP2p_v2_t, commHash) - 8usize];
    [
        "Offset of field: ncclProfilerP2p_v2_t::func",
    ][::core::mem::offset_of!(ncclProfilerP2p_v2_t, func) - 16usize];
    [
        "Offset of field: ncclProfilerP2p_v2_t::buff",
    ][::core::mem::offset_of!(ncclProfilerP2p_v2_t, buff) - 24usize];
    [
        "Offset of field: ncclProfilerP2p_v2_t::datatype",
    ][::core::mem::offset_of!(ncclProfilerP2p_v2_t, datatype) - 32usize];
    [
        "Offset of field: ncclProfilerP2p_v2_t::count",
    ][::core::mem::offset_of!(ncclProfilerP2p_v2_t, count) - 40usize];
    [
        "Offset of field: ncclProfilerP2p_v2_t::peer",
    ][::core::mem::offset_of!(ncclProfilerP2p_v2_t, peer) - 48usize];
};
impl Default for ncclProfilerP2p_v2_t {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct ncclProfilerP2p_v4_t {
    pub func: *const ::core::ffi::c_char,
    pub buff: *mut ::core::ffi::c_void,
    pub datatype: *const ::core::ffi::c_char,
    pub count: usize,
    pub peer: ::core::ffi::c_int,
    pub nChannels: u8,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    [
        "Size of ncclProfilerP2p_v4_t",
    ][::core::mem::size_of::<ncclProfilerP2p_v4_t>() - 40usize];
    [
        "Alignment of ncclProfilerP2p_v4_t",
    ][::core::mem::align_of::<ncclProfilerP2p_v4_t>() - 8usize];
    [
        "Offset of field: ncclProfilerP2p_v4_t::func",
    ][::core::mem::offset_of!(ncclProfilerP2p_v4_t, func) - 0usize];
    [
        "Offset of field: ncclProfilerP2p_v4_t::buff",
    ][::core::mem::offset_of!(ncclProfilerP2p_v4_t, buff) - 8usize];
    [
        "Offset of field: ncclProfilerP2p_v4_t::datatype",
    ][::core::mem::offset_of!(ncclProfilerP2p_v4_t, datatype) - 16usize];
    [
        "Offset of field: ncclProfilerP2p_v4_t::count",
    ][::core::mem::offset_of!(ncclProfilerP2p_v4_t, count) - 24usize];
    [
        "Offset of field: ncclProfilerP2p_v4_t::peer",
    ][::core::mem::offset_of!(ncclProfilerP2p_v4_t, peer) - 32usize];
    [
        "Offset of field: ncclProfilerP2p_v4_t::nChannels",
    ][::core::mem::offset_of!(ncclProfilerP2p_v4_t, nChannels) - 36usize];
};
impl Default for ncclProfilerP2p_v4_t {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct ncclProfilerP2p_v5_t {
    pub func: *const ::core::ffi::c_char,
    pub buff: *mut ::core::ffi::c_void,
    pub datatype: *const ::core::ffi::c_char,
    pub count: usize,
    pub peer: ::core::ffi::c_int,
    pub nChannels: u8,
    pub parentGroup: *mut ::core::ffi::c_void,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    [
        "Size of ncclProfilerP2p_v5_t",
    ][::core::mem::size_of::<ncclProfilerP2p_v5_t>() - 48usize];
    [
        "Alignment of ncclProfilerP2p_v5_t",
    ][::core::mem::align_of::<ncclProfilerP2p_v5_t>() - 8usize];
    [
        "Offset of field: ncclProfilerP2p_v5_t::func",
    ][::core::mem::offset_of!(ncclProfilerP2p_v5_t, func) - 0usize];
    [
        "Offset of field: ncclProfilerP2p_v5_t::buff",
    ][::core::mem::offset_of!(ncclProfilerP2p_v5_t, buff) - 8usize];
    [
        "Offset of field: ncclProfilerP2p_v5_t::datatype",
    ][::core::mem::offset_of!(ncclProfilerP2p_v5_t, datatype) - 16usize];
    [
        "Offset of field: ncclProfilerP2p_v5_t::count",
    ][::core::mem::offset_of!(ncclProfilerP2p_v5_t, count) - 24usize];
    [
        "Offset of field: ncclProfilerP2p_v5_t::peer",
    ][::core::mem::offset_of!(ncclProfilerP2p_v5_t, peer) - 32usize];
    [
        "Offset of field: ncclProfilerP2p_v5_t::nChannels",
    ][::core::mem::offset_of!(ncclProfilerP2p_v5_t, nChannels) - 36usize];
    [
        "Offset of field: ncclProfilerP2p_v5_t::parentGroup",
    ][::core::mem::offset_of!(ncclProfilerP2p_v5_t, parentGroup) - 40usize];
};
impl Default for ncclProfilerP2p_v5_t {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct ncclProfilerP2p_v7_t {
    pub func: *const ::core::ffi::c_char,
    pub buff: *mut ::core::ffi::c_void,
    pub datatype: *const ::core::ffi::c_char,
    pub count: usize,
    pub peer: ::core::ffi::c_int,
    pub nChannels: u8,
    pub parentGroup: *mut ::core::ffi::c_void,
    pub userTag: u64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    [
        "Size of ncclProfilerP2p_v7_t",
    ][::core::mem::size_of::<ncclProfilerP2p_v7_t>() - 56usize];
    [
        "Alignment of ncclProfilerP2p_v7_t",
    ][::core::mem::align_of::<ncclProfilerP2p_v7_t>() - 8usize];
    [
        "Offset of field: ncclProfilerP2p_v7_t::func",
    ][::core::mem::offset_of!(ncclProfilerP2p_v7_t, func) - 0usize];
    [
        "Offset of field: ncclProfilerP2p_v7_t::buff",
    ][::core::mem::offset_of!(ncclProfilerP2p_v7_t, buff) - 8usize];
    [
        "Offset of field: ncclProfilerP2p_v7_t::datatype",
    ][::core::mem::offset_of!(ncclProfilerP2p_v7_t, datatype) - 16usize];
    [
        "Offset of field: ncclProfilerP2p_v7_t::count",
    ][::core::mem::offset_of!(ncclProfilerP2p_v7_t, count) - 24usize];
    [
        "Offset of field: ncclProfilerP2p_v7_t::peer",
    ][::core::mem::offset_of!(ncclProfilerP2p_v7_t, peer) - 32usize];
    [
        "Offset of field: ncclProfilerP2p_v7_t::nChannels",
    ][::core::mem::offset_of!(ncclProfilerP2p_v7_t, nChannels) - 36usize];
    [
        "Offset of field: ncclProfilerP2p_v7_t::parentGroup",
    ][::core::mem::offset_of!(ncclProfilerP2p_v7_t, parentGroup) - 40usize];
    [
        "Offset of field: ncclProfilerP2p_v7_t::userTag",
    ][::core::mem::offset_of!(ncclProfilerP2p_v7_t, userTag) - 48usize];
};
impl Default for ncclProfilerP2p_v7_t {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
#[repr(C)]
#[derive(Default, Copy, Clone)]
pub struct ncclProfilerProxyOp_v1_t {
    pub pid: i32,
    pub channelId: u8,
    pub peer: ::core::ffi::c_int,
    pub nSteps: ::core::ffi::c_int,
    pub chunkSize: ::core::ffi::c_int,
    pub isSend: ::core::ffi::c_int,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    [
        "Size of ncclProfilerProxyOp_v1_t",
    ][::core::mem::size_of::<ncclProfilerProxyOp_v1_t>() - 24usize];
    [
        "Alignment of ncclProfilerProxyOp_v1_t",
    ][::core::mem::align_of::<ncclProfilerProxyOp_v1_t>() - 4usize];
    [
        "Offset of field: ncclProfilerProxyOp_v1_t::pid",
    ][::core::mem::offset_of!(ncclProfilerProxyOp_v1_t, pid) - 0usize];
    [
        "Offset of field: ncclProfilerProxyOp_v1_t::channelId",
    ][::core::mem::offset_of!(ncclProfilerProxyOp_v1_t, channelId) - 4usize];
    [
        "Offset of field: ncclProfilerProxyOp_v1_t::peer",
    ][::core::mem::offset_of!(ncclProfilerProxyOp_v1_t, peer) - 8usize];
    [
        "Offset of field: ncclProfilerProxyOp_v1_t::nSteps",
    ][::core::mem::offset_of!(ncclProfilerProxyOp_v1_t, nSteps) - 12usize];
    [
        "Offset of field: ncclProfilerProxyOp_v1_t::chunkSize",
    ][::core::mem::offset_of!(ncclProfilerProxyOp_v1_t, chunkSize) - 16usize];
    [
        "Offset of field: ncclProfilerProxyOp_v1_t::isSend",
    ][::core::mem::offset_of!(ncclProfilerProxyOp_v1_t, isSend) - 20usize];
};
#[repr(C)]
#[derive(Default, Copy, Clone)]
pub struct ncclProfilerProxyStep_v1_t {
    pub step: ::core::ffi::c_int,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    [
        "Size of ncclProfilerProxyStep_v1_t",
    ][::core::mem::size_of::<ncclProfilerProxyStep_v1_t>() - 4usize];
    [
        "Alignment of ncclProfilerProxyStep_v1_t",
    ][::core::mem::align_of::<ncclProfilerProxyStep_v1_t>() - 4usize];
    [
        "Offset of field: ncclProfilerProxyStep_v1_t::step",
    ][::core::mem::offset_of!(ncclProfilerProxyStep_v1_t, step) - 0usize];
};
#[repr(C)]
#[derive(Default, Copy, Clone)]
pub struct ncclProfilerKernelCh_v3_t {
    pub channelId: u8,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    [
        "Size of ncclProfilerKernelCh_v3_t",
    ][::core::mem::size_of::<ncclProfilerKernelCh_v3_t>() - 1usize];
    [
        "Alignment of ncclProfilerKernelCh_v3_t",
    ][::core::mem::align_of::<ncclProfilerKernelCh_v3_t>() - 1usize];
    [
        "Offset of field: ncclProfilerKernelCh_v3_t::channelId",
    ][::core::mem::offset_of!(ncclProfilerKernelCh_v3_t, channelId) - 0usize];
};
#[repr(C)]
#[derive(Default, Copy, Clone)]
pub struct ncclProfilerKernelCh_v4_t {
    pub channelId: u8,
    pub pTimer: u64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    [
        "Size of ncclProfilerKernelCh_v4_t",
    ][::core::mem::size_of::<ncclProfilerKernelCh_v4_t>() - 16usize];
    [
        "Alignment of ncclProfilerKernelCh_v4_t",
    ][::core::mem::align_of::<ncclProfilerKernelCh_v4_t>() - 8usize];
    [
        "Offset of field: ncclProfilerKernelCh_v4_t::channelId",
    ][::core::mem::offset_of!(ncclProfilerKernelCh_v4_t, channelId) - 0usize];
    [
        "Offset of field: ncclProfilerKernelCh_v4_t::pTimer",
    ][::core::mem::offset_of!(ncclProfilerKernelCh_v4_t, pTimer) - 8usize];
};
#[repr(C)]
#[derive(Copy, Clone)]
pub struct ncclProfilerNetPlugin_v3_t {
    pub id: i64,
    pub data: *mut ::core::ffi::c_void,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    [
        "Size of ncclProfilerNetPlugin_v3_t",
    ][::core::mem::size_of::<ncclProfilerNetPlugin_v3_t>() - 16usize];
    [
        "Alignment of ncclProfilerNetPlugin_v3_t",
    ][::core::mem::align_of::<ncclProfilerNetPlugin_v3_t>() - 8usize];
    [
        "Offset of field: ncclProfilerNetPlugin_v3_t::id",
    ][::core::mem::offset_of!(ncclProfilerNetPlugin_v3_t, id) - 0usize];
    [
        "Offset of field: ncclProfilerNetPlugin_v3_t::data",
    ][::core::mem::offset_of!(ncclProfilerNetPlugin_v3_t, data) - 8usize];
};
impl Default for ncclProfilerNetPlugin_v3_t {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
#[repr(C)]
#[derive(Default, Copy, Clone)]
pub struct ncclProfilerGroupApi_v5_t {
    pub graphCaptured: ncclProfilerBool_t,
    pub groupDepth: ::core::ffi::c_int,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    [
        "Size of ncclProfilerGroupApi_v5_t",
    ][::core::mem::size_of::<ncclProfilerGroupApi_v5_t>() - 8usize];
    [
        "Alignment of ncclProfilerGroupApi_v5_t",
    ][::core::mem::align_of::<ncclProfilerGroupApi_v5_t>() - 4usize];
    [
        "Offset of field: ncclProfilerGroupApi_v5_t::graphCaptured",
    ][::core::mem::offset_of!(ncclProfilerGroupApi_v5_t, graphCaptured) - 0usize];
    [
        "Offset of field: ncclProfilerGroupApi_v5_t::groupDepth",
    ][::core::mem::offset_of!(ncclProfilerGroupApi_v5_t, groupDepth) - 4usize];
};
#[repr(C)]
#[derive(Copy, Clone)]
pub struct ncclProfilerCollApi_v5_t {
    pub func: *const ::core::ffi::c_char,
    pub count: usize,
    pub datatype: *const ::core::ffi::c_char,
    pub root: ::core::ffi::c_int,
    pub stream: *mut ::core::ffi::c_void,
    pub graphCaptured: ncclProfilerBool_t,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    [
        "Size of ncclProfilerCollApi_v5_t",
    ][::core::mem::size_of::<ncclProfilerCollApi_v5_t>() - 48usize];
    [
        "Alignment of ncclProfilerCollApi_v5_t",
    ][::core::mem::align_of::<ncclProfilerCollApi_v5_t>() - 8usize];
    [
        "Offset of field: ncclProfilerCollApi_v5_t::func",
    ][::core::mem::offset_of!(ncclProfilerCollApi_v5_t, func) - 0usize];
    [
        "Offset of field: ncclProfilerCollApi_v5_t::count",
    ][::core::mem::offset_of!(ncclProfilerCollApi_v5_t, count) - 8usize];
    [
        "Offset of field: ncclProfilerCollApi_v5_t::datatype",
    ][::core::mem::offset_of!(ncclProfilerCollApi_v5_t, datatype) - 16usize];
    [
        "Offset of field: ncclProfilerCollApi_v5_t::root",
    ][::core::mem::offset_of!(ncclProfilerCollApi_v5_t, root) - 24usize];
    [
        "Offset of field: ncclProfilerCollApi_v5_t::stream",
    ][::core::mem::offset_of!(ncclProfilerCollApi_v5_t, stream) - 32usize];
    [
        "Offset of field: ncclProfilerCollApi_v5_t::graphCaptured",
    ][::core::mem::offset_of!(ncclProfilerCollApi_v5_t, graphCaptured) - 40usize];
};
impl Default for ncclProfilerCollApi_v5_t {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct ncclProfilerCollApi_v7_t {
    pub func: *const ::core::ffi::c_char,
    pub count: usize,
    pub datatype: *const ::core::ffi::c_char,
    pub root: ::core::ffi::c_int,
    pub stream: *mut ::core::ffi::c_void,
    pub graphCaptured: ncclProfilerBool_t,
    pub userTag: u64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    [
        "Size of ncclProfilerCollApi_v7_t",
    ][::core::mem::size_of::<ncclProfilerCollApi_v7_t>() - 56usize];
    [
        "Alignment of ncclProfilerCollApi_v7_t",
    ][::core::mem::align_of::<ncclProfilerCollApi_v7_t>() - 8usize];
    [
        "Offset of field: ncclProfilerCollApi_v7_t::func",
    ][::core::mem::offset_of!(ncclProfilerCollApi_v7_t, func) - 0usize];
    [
        "Offset of field: ncclProfilerCollApi_v7_t::count",
    ][::core::mem::offset_of!(ncclProfilerCollApi_v7_t, count) - 8usize];
    [
        "Offset of field: ncclProfilerCollApi_v7_t::datatype",
    ][::core::mem::offset_of!(ncclProfilerCollApi_v7_t, datatype) - 16usize];
    [
        "Offset of field: ncclProfilerCollApi_v7_t::root",
    ][::core::mem::offset_of!(ncclProfilerCollApi_v7_t, root) - 24usize];
    [
        "Offset of field: ncclProfilerCollApi_v7_t::stream",
    ][::core::mem::offset_of!(ncclProfilerCollApi_v7_t, stream) - 32usize];
    [
        "Offset of field: ncclProfilerCollApi_v7_t::graphCaptured",
    ][::core::mem::offset_of!(ncclProfilerCollApi_v7_t, graphCaptured) - 40usize];
    [
        "Offset of field: ncclProfilerCollApi_v7_t::userTag",
    ][::core::mem::offset_of!(ncclProfilerCollApi_v7_t, userTag) - 48usize];
};
impl Default for ncclProfilerCollApi_v7_t {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct ncclProfilerP2pApi_v5_t {
    pub func: *const ::core::ffi::c_char,
    pub count: usize,
    pub datatype: *const ::core::ffi::c_char,
    pub stream: *mut ::core::ffi::c_void,
    pub graphCaptured: ncclProfilerBool_t,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    [
        "Size of ncclProfilerP2pApi_v5_t",
    ][::core::mem::size_of::<ncclProfilerP2pApi_v5_t>() - 40usize];
    [
        "Alignment of ncclProfilerP2pApi_v5_t",
    ][::core::mem::align_of::<ncclProfilerP2pApi_v5_t>() - 8usize];
    [
        "Offset of field: ncclProfilerP2pApi_v5_t::func",
    ][::core::mem::offset_of!(ncclProfilerP2pApi_v5_t, func) - 0usize];
    [
        "Offset of field: ncclProfilerP2pApi_v5_t::count",
    ][::core::mem::offset_of!(ncclProfilerP2pApi_v5_t, count) - 8usize];
    [
        "Offset of field: ncclProfilerP2pApi_v5_t::datatype",
    ][::core::mem::offset_of!(ncclProfilerP2pApi_v5_t, datatype) - 16usize];
    [
        "Offset of field: ncclProfilerP2pApi_v5_t::stream",
    ][::core::mem::offset_of!(ncclProfilerP2pApi_v5_t, stream) - 24usize];
    [
        "Offset of field: ncclProfilerP2pApi_v5_t::graphCaptured",
    ][::core::mem::offset_of!(ncclProfilerP2pApi_v5_t, graphCaptured) - 32usize];
};
impl Default for ncclProfilerP2pApi_v5_t {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct ncclProfilerP2pApi_v7_t {
    pub func: *const ::core::ffi::c_char,
    pub count: usize,
    pub datatype: *const ::core::ffi::c_char,
    pub stream: *mut ::core::ffi::c_void,
    pub graphCaptured: ncclProfilerBool_t,
    pub userTag: u64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    [
        "Size of ncclProfilerP2pApi_v7_t",
    ][::core::mem::size_of::<ncclProfilerP2pApi_v7_t>() - 48usize];
    [
        "Alignment of ncclProfilerP2pApi_v7_t",
    ][::core::mem::align_of::<ncclProfilerP2pApi_v7_t>() - 8usize];
    [
        "Offset of field: ncclProfilerP2pApi_v7_t::func",
    ][::core::mem::offset_of!(ncclProfilerP2pApi_v7_t, func) - 0usize];
    [
        "Offset of field: ncclProfilerP2pApi_v7_t::count",
    ][::core::mem::offset_of!(ncclProfilerP2pApi_v7_t, count) - 8usize];
    [
        "Offset of field: ncclProfilerP2pApi_v7_t::datatype",
    ][::core::mem::offset_of!(ncclProfilerP2pApi_v7_t, datatype) - 16usize];
    [
        "Offset of field: ncclProfilerP2pApi_v7_t::stream",
    ][::core::mem::offset_of!(ncclProfilerP2pApi_v7_t, stream) - 24usize];
    [
        "Offset of field: ncclProfilerP2pApi_v7_t::graphCaptured",
    ][::core::mem::offset_of!(ncclProfilerP2pApi_v7_t, graphCaptured) - 32usize];
    [
        "Offset of field: ncclProfilerP2pApi_v7_t::userTag",
    ][::core::mem::offset_of!(ncclProfilerP2pApi_v7_t, userTag) - 40usize];
};
impl Default for ncclProfilerP2pApi_v7_t {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct ncclProfilerKernelLaunch_v5_t {
    pub stream: *mut ::core::ffi::c_void,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    [
        "Size of ncclProfilerKernelLaunch_v5_t",
    ][::core::mem::size_of::<ncclProfilerKernelLaunch_v5_t>() - 8usize];
    [
        "Alignment of ncclProfilerKernelLaunch_v5_t",
    ][::core::mem::align_of::<ncclProfilerKernelLaunch_v5_t>() - 8usize];
    [
        "Offset of field: ncclProfilerKernelLaunch_v5_t::stream",
    ][::core::mem::offset_of!(ncclProfilerKernelLaunch_v5_t, stream) - 0usize];
};
impl Default for ncclProfilerKernelLaunch_v5_t {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct ncclProfilerCeColl_v6_t {
    pub seqNumber: u64,
    pub func: *const ::core::ffi::c_char,
    pub sendBuff: *const ::core::ffi::c_void,
    pub recvBuff: *mut ::core::ffi::c_void,
    pub count: usize,
    pub root: ::core::ffi::c_int,
    pub datatype: *const ::core::ffi::c_char,
    pub syncStrategy: *const ::core::ffi::c_char,
    pub intraBatchSync: ncclProfilerBool_t,
    pub batchSize: u32,
    pub numBatches: u32,
    pub ceSeqNum: u32,
    pub stream: *mut ::core::ffi::c_void,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    [
        "Size of ncclProfilerCeColl_v6_t",
    ][::core::mem::size_of::<ncclProfilerCeColl_v6_t>() - 88usize];
    [
        "Alignment of ncclProfilerCeColl_v6_t",
    ][::core::mem::align_of::<ncclProfilerCeColl_v6_t>() - 8usize];
    [
        "Offset of field: ncclProfilerCeColl_v6_t::seqNumber",
    ][::core::mem::offset_of!(ncclProfilerCeColl_v6_t, seqNumber) - 0usize];
    [
        "Offset of field: ncclProfilerCeColl_v6_t::func",
    ][::core::mem::offset_of!(ncclProfilerCeColl_v6_t, func) - 8usize];
    [
        "Offset of field: ncclProfilerCeColl_v6_t::sendBuff",
    ][::core::mem::offset_of!(ncclProfilerCeColl_v6_t, sendBuff) - 16usize];
    [
        "Offset of field: ncclProfilerCeColl_v6_t::recvBuff",
    ][::core::mem::offset_of!(ncclProfilerCeColl_v6_t, recvBuff) - 24usize];
    [
        "Offset of field: ncclProfilerCeColl_v6_t::count",
    ][::core::mem::offset_of!(ncclProfilerCeColl_v6_t, count) - 32usize];
    [
        "Offset of field: ncclProfilerCeColl_v6_t::root",
    ][::core::mem::offset_of!(ncclProfilerCeColl_v6_t, root) - 40usize];
    [
        "Offset of field: ncclProfilerCeColl_v6_t::datatype",
    ][::core::mem::offset_of!(ncclProfilerCeColl_v6_t, datatype) - 48usize];
    [
        "Offset of field: ncclProfilerCeColl_v6_t::syncStrategy",
    ][::core::mem::offset_of!(ncclProfilerCeColl_v6_t, syncStrategy) - 56usize];
    [
        "Offset of field: ncclProfilerCeColl_v6_t::intraBatchSync",
    ][::core::mem::offset_of!(ncclProfilerCeColl_v6_t, intraBatchSync) - 64usize];
    [
        "Offset of field: ncclProfilerCeColl_v6_t::batchSize",
    ][::core::mem::offset_of!(ncclProfilerCeColl_v6_t, batchSize) - 68usize];
    [
        "Offset of field: ncclProfilerCeColl_v6_t::numBatches",
    ][::core::mem::offset_of!(ncclProfilerCeColl_v6_t, numBatches) - 72usize];
    [
        "Offset of field: ncclProfilerCeColl_v6_t::ceSeqNum",
    ][::core::mem::offset_of!(ncclProfilerCeColl_v6_t, ceSeqNum) - 76usize];
    [
        "Offset of field: ncclProfilerCeColl_v6_t::stream",
    ][::core::mem::offset_of!(ncclProfilerCeColl_v6_t, stream) - 80usize];
};
impl Default for ncclProfilerCeColl_v6_t {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct ncclProfilerCeColl_v7_t {
    pub seqNumber: u64,
    pub func: *const ::core::ffi::c_char,
    pub sendBuff: *const ::core::ffi::c_void,
    pub recvBuff: *mut ::core::ffi::c_void,
    pub count: usize,
    pub root: ::core::ffi::c_int,
    pub datatype: *const ::core::ffi::c_char,
    pub syncStrategy: *const ::core::ffi::c_char,
    pub intraBatchSync: ncclProfilerBool_t,
    pub batchSize: u32,
    pub numBatches: u32,
    pub ceSeqNum: u32,
    pub stream: *mut ::core::ffi::c_void,
    pub userTag: u64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    [
        "Size of ncclProfilerCeColl_v7_t",
    ][::core::mem::size_of::<ncclProfilerCeColl_v7_t>() - 96usize];
    [
        "Alignment of ncclProfilerCeColl_v7_t",
    ][::core::mem::align_of::<ncclProfilerCeColl_v7_t>() - 8usize];
    [
        "Offset of field: ncclProfilerCeColl_v7_t::seqNumber",
    ][::core::mem::offset_of!(ncclProfilerCeColl_v7_t, seqNumber) - 0usize];
    [
        "Offset of field: ncclProfilerCeColl_v7_t::func",
    ][::core::mem::offset_of!(ncclProfilerCeColl_v7_t, func) - 8usize];
    [
        "Offset of field: ncclProfilerCeColl_v7_t::sendBuff",
    ][::core::mem::offset_of!(ncclProfilerCeColl_v7_t, sendBuff) - 16usize];
    [
        "Offset of field: ncclProfilerCeColl_v7_t::recvBuff",
    ][::core::mem::offset_of!(ncclProfilerCeColl_v7_t, recvBuff) - 24usize];
    [
        "Offset of field: ncclProfilerCeColl_v7_t::count",
    ][::core::mem::offset_of!(ncclProfilerCeColl_v7_t, count) - 32usize];
    [
        "Offset of field: ncclProfilerCeColl_v7_t::root",
    ][::core::mem::offset_of!(ncclProfilerCeColl_v7_t, root) - 40usize];
    [
        "Offset of field: ncclProfilerCeColl_v7_t::datatype",
    ][::core::mem::offset_of!(ncclProfilerCeColl_v7_t, datatype) - 48usize];
    [
        "Offset of field: ncclProfilerCeColl_v7_t::syncStrategy",
    ][::core::mem::offset_of!(ncclProfilerCeColl_v7_t, syncStrategy) - 56usize];
    [
        "Offset of field: ncclProfilerCeColl_v7_t::intraBatchSync",
    ][::core::mem::offset_of!(ncclProfilerCeColl_v7_t, intraBatchSync) - 64usize];
    [
        "Offset of field: ncclProfilerCeColl_v7_t::batchSize",
    ][::core::mem::offset_of!(ncclProfilerCeColl_v7_t, batchSize) - 68usize];
    [
        "Offset of field: ncclProfilerCeColl_v7_t::numBatches",
    ][::core::mem::offset_of!(ncclProfilerCeColl_v7_t, numBatches) - 72usize];
    [
        "Offset of field: ncclProfilerCeColl_v7_t::ceSeqNum",
    ][::core::mem::offset_of!(ncclProfilerCeColl_v7_t, ceSeqNum) - 76usize];
    [
        "Offset of field: ncclProfilerCeColl_v7_t::stream",
    ][::core::mem::offset_of!(ncclProfilerCeColl_v7_t, stream) - 80usize];
    [
        "Offset of field: ncclProfilerCeColl_v7_t::userTag",
    ][::core::mem::offset_of!(ncclProfilerCeColl_v7_t, userTag) - 88usize];
};
impl Default for ncclProfilerCeColl_v7_t {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
#[repr(C)]
#[derive(Default, Copy, Clone)]
pub struct ncclProfilerCeCollSync_v6_t {
    pub isComplete: ncclProfilerBool_t,
    pub nRanks: ::core::ffi::c_int,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    [
        "Size of ncclProfilerCeCollSync_v6_t",
    ][::core::mem::size_of::<ncclProfilerCeCollSync_v6_t>() - 8usize];
    [
        "Alignment of ncclProfilerCeCollSync_v6_t",
    ][::core::mem::align_of::<ncclProfilerCeCollSync_v6_t>() - 4usize];
    [
        "Offset of field: ncclProfilerCeCollSync_v6_t::isComplete",
    ][::core::mem::offset_of!(ncclProfilerCeCollSync_v6_t, isComplete) - 0usize];
    [
        "Offset of field: ncclProfilerCeCollSync_v6_t::nRanks",
    ][::core::mem::offset_of!(ncclProfilerCeCollSync_v6_t, nRanks) - 4usize];
};
#[repr(C)]
#[derive(Default, Copy, Clone)]
pub struct ncclProfilerCeCollBatch_v6_t {
    pub numOps: ::core::ffi::c_int,
    pub totalBytes: usize,
    pub useIntraSync: ncclProfilerBool_t,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    [
        "Size of ncclProfilerCeCollBatch_v6_t",
    ][::core::mem::size_of::<ncclProfilerCeCollBatch_v6_t>() - 24usize];
    [
        "Alignment of ncclProfilerCeCollBatch_v6_t",
    ][::core::mem::align_of::<ncclProfilerCeCollBatch_v6_t>() - 8usize];
    [
        "Offset of field: ncclProfilerCeCollBatch_v6_t::numOps",
    ][::core::mem::offset_of!(ncclProfilerCeCollBatch_v6_t, numOps) - 0usize];
    [
        "Offset of field: ncclProfilerCeCollBatch_v6_t::totalBytes",
    ][::core::mem::offset_of!(ncclProfilerCeCollBatch_v6_t, totalBytes) - 8usize];
    [
        "Offset of field: ncclProfilerCeCollBatch_v6_t::useIntraSync",
    ][::core::mem::offset_of!(ncclProfilerCeCollBatch_v6_t, useIntraSync) - 16usize];
};
#[repr(C)]
#[derive(Copy, Clone)]
pub struct ncclProfilerKernelPhase_v7_t {
    pub channelId: u8,
    pub phaseId: u8,
    pub phaseName: *const ::core::ffi::c_char,
    pub pTimer: u64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    [
        "Size of ncclProfilerKernelPhase_v7_t",
    ][::core::mem::size_of::<ncclProfilerKernelPhase_v7_t>() - 24usize];
    [
        "Alignment of ncclProfilerKernelPhase_v7_t",
    ][::core::mem::align_of::<ncclProfilerKernelPhase_v7_t>() - 8usize];
    [
        "Offset of field: ncclProfilerKernelPhase_v7_t::channelId",
    ][::core::mem::offset_of!(ncclProfilerKernelPhase_v7_t, channelId) - 0usize];
    [
        "Offset of field: ncclProfilerKernelPhase_v7_t::phaseId",
    ][::core::mem::offset_of!(ncclProfilerKernelPhase_v7_t, phaseId) - 1usize];
    [
        "Offset of field: ncclProfilerKernelPhase_v7_t::phaseName",
    ][::core::mem::offset_of!(ncclProfilerKernelPhase_v7_t, phaseName) - 8usize];
    [
        "Offset of field: ncclProfilerKernelPhase_v7_t::pTimer",
    ][::core::mem::offset_of!(ncclProfilerKernelPhase_v7_t, pTimer) - 16usize];
};
impl Default for ncclProfilerKernelPhase_v7_t {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct ncclProfilerEventDescr_v1_t {
    pub type_: u8,
    pub parentObj: *mut ::core::ffi::c_void,
    pub rank: ::core::ffi::c_int,
    pub __bindgen_anon_1: ncclProfilerEventDescr_v1_t__bindgen_ty_1,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub union ncclProfilerEventDescr_v1_t__bindgen_ty_1 {
    pub coll: ncclProfilerColl_v1_t,
    pub p2p: ncclProfilerP2p_v1_t,
    pub proxyOp: ncclProfilerProxyOp_v1_t,
    pub proxyStep: ncclProfilerProxyStep_v1_t,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    [
        "Size of ncclProfilerEventDescr_v1_t__bindgen_ty_1",
    ][::core::mem::size_of::<ncclProfilerEventDescr_v1_t__bindgen_ty_1>() - 96usize];
    [
        "Alignment of ncclProfilerEventDescr_v1_t__bindgen_ty_1",
    ][::core::mem::align_of::<ncclProfilerEventDescr_v1_t__bindgen_ty_1>() - 8usize];
    [
        "Offset of field: ncclProfilerEventDescr_v1_t__bindgen_ty_1::coll",
    ][::core::mem::offset_of!(ncclProfilerEventDescr_v1_t__bindgen_ty_1, coll) - 0usize];
    [
        "Offset of field: ncclProfilerEventDescr_v1_t__bindgen_ty_1::p2p",
    ][::core::mem::offset_of!(ncclProfilerEventDescr_v1_t__bindgen_ty_1, p2p) - 0usize];
    [
        "Offset of field: ncclProfilerEventDescr_v1_t__bindgen_ty_1::proxyOp",
    ][::core::mem::offset_of!(ncclProfilerEventDescr_v1_t__bindgen_ty_1, proxyOp)
        - 0usize];
    [
        "Offset of field: ncclProfilerEventDescr_v1_t__bindgen_ty_1::proxyStep",
    ][::core::mem::offset_of!(ncclProfilerEventDescr_v1_t__bindgen_ty_1, proxyStep)
        - 0usize];
};
impl Default for ncclProfilerEventDescr_v1_t__bindgen_ty_1 {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    [
        "Size of ncclProfilerEventDescr_v1_t",
    ][::core::mem::size_of::<ncclProfilerEventDescr_v1_t>() - 120usize];
    [
        "Alignment of ncclProfilerEventDescr_v1_t",
    ][::core::mem::align_of::<ncclProfilerEventDescr_v1_t>() - 8usize];
    [
        "Offset of field: ncclProfilerEventDescr_v1_t::type_",
    ][::core::mem::offset_of!(ncclProfilerEventDescr_v1_t, type_) - 0usize];
    [
        "Offset of field: ncclProfilerEventDescr_v1_t::parentObj",
    ][::core::mem::offset_of!(ncclProfilerEventDescr_v1_t, parentObj) - 8usize];
    [
        "Offset of field: ncclProfilerEventDescr_v1_t::rank",
    ][::core::mem::offset_of!(ncclProfilerEventDescr_v1_t, rank) - 16usize];
};
impl Default for ncclProfilerEventDescr_v1_t {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct ncclProfilerEventDescr_v2_t {
    pub type_: u8,
    pub parentObj: *mut ::core::ffi::c_void,
    pub rank: ::core::ffi::c_int,
    pub __bindgen_anon_1: ncclProfilerEventDescr_v2_t__bindgen_ty_1,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub union ncclProfilerEventDescr_v2_t__bindgen_ty_1 {
    pub coll: ncclProfilerColl_v2_t,
    pub p2p: ncclProfilerP2p_v2_t,
    pub proxyOp: ncclProfilerProxyOp_v1_t,
    pub proxyStep: ncclProfilerProxyStep_v1_t,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    [
        "Size of ncclProfilerEventDescr_v2_t__bindgen_ty_1",
    ][::core::mem::size_of::<ncclProfilerEventDescr_v2_t__bindgen_ty_1>() - 104usize];
    [
        "Alignment of ncclProfilerEventDescr_v2_t__bindgen_ty_1",
    ][::core::mem::align_of::<ncclProfilerEventDescr_v2_t__bindgen_ty_1>() - 8usize];
    [
        "Offset of field: ncclProfilerEventDescr_v2_t__bindgen_ty_1::coll",
    ][::core::mem::offset_of!(ncclProfilerEventDescr_v2_t__bindgen_ty_1, coll) - 0usize];
    [
        "Offset of field: ncclProfilerEventDescr_v2_t__bindgen_ty_1::p2p",
    ][::core::mem::offset_of!(ncclProfilerEventDescr_v2_t__bindgen_ty_1, p2p) - 0usize];
    [
        "Offset of field: ncclProfilerEventDescr_v2_t__bindgen_ty_1::proxyOp",
    ][::core::mem::offset_of!(ncclProfilerEventDescr_v2_t__bindgen_ty_1, proxyOp)
        - 0usize];
    [
        "Offset of field: ncclProfilerEventDescr_v2_t__bindgen_ty_1::proxyStep",
    ][::core::mem::offset_of!(ncclProfilerEventDescr_v2_t__bindgen_ty_1, proxyStep)
        - 0usize];
};
impl Default for ncclProfilerEventDescr_v2_t__bindgen_ty_1 {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    [
        "Size of ncclProfilerEventDescr_v2_t",
    ][::core::mem::size_of::<ncclProfilerEventDescr_v2_t>() - 128usize];
    [
        "Alignment of ncclProfilerEventDescr_v2_t",
    ][::core::mem::align_of::<ncclProfilerEventDescr_v2_t>() - 8usize];
    [
        "Offset of field: ncclProfilerEventDescr_v2_t::type_",
    ][::core::mem::offset_of!(ncclProfilerEventDescr_v2_t, type_) - 0usize];
    [
        "Offset of field: ncclProfilerEventDescr_v2_t::parentObj",
    ][::core::mem::offset_of!(ncclProfilerEventDescr_v2_t, parentObj) - 8usize];
    [
        "Offset of field: ncclProfilerEventDescr_v2_t::rank",
    ][::core::mem::offset_of!(ncclProfilerEventDescr_v2_t, rank) - 16usize];
};
impl Default for ncclProfilerEventDescr_v2_t {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct ncclProfilerEventDescr_v3_t {
    pub type_: u8,
    pub parentObj: *mut ::core::ffi::c_void,
    pub rank: ::core::ffi::c_int,
    pub __bindgen_anon_1: ncclProfilerEventDescr_v3_t__bindgen_ty_1,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub union ncclProfilerEventDescr_v3_t__bindgen_ty_1 {
    pub coll: ncclProfilerColl_v3_t,
    pub p2p: ncclProfilerP2p_v2_t,
    pub proxyOp: ncclProfilerProxyOp_v1_t,
    pub proxyStep: ncclProfilerProxyStep_v1_t,
    pub kernelCh: ncclProfilerKernelCh_v3_t,
    pub netPlugin: ncclProfilerNetPlugin_v3_t,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    [
        "Size of ncclProfilerEventDescr_v3_t__bindgen_ty_1",
    ][::core::mem::size_of::<ncclProfilerEventDescr_v3_t__bindgen_ty_1>() - 96usize];
    [
        "Alignment of ncclProfilerEventDescr_v3_t__bindgen_ty_1",
    ][::core::mem::align_of::<ncclProfilerEventDescr_v3_t__bindgen_ty_1>() - 8usize];
    [
        "Offset of field: ncclProfilerEventDescr_v3_t__bindgen_ty_1::coll",
    ][::core::mem::offset_of!(ncclProfilerEventDescr_v3_t__bindgen_ty_1, coll) - 0usize];
    [
        "Offset of field: ncclProfilerEventDescr_v3_t__bindgen_ty_1::p2p",
    ][::core::mem::offset_of!(ncclProfilerEventDescr_v3_t__bindgen_ty_1, p2p) - 0usize];
    [
        "Offset of field: ncclProfilerEventDescr_v3_t__bindgen_ty_1::proxyOp",
    ][::core::mem::offset_of!(ncclProfilerEventDescr_v3_t__bindgen_ty_1, proxyOp)
        - 0usize];
    [
        "Offset of field: ncclProfilerEventDescr_v3_t__bindgen_ty_1::proxyStep",
    ][::core::mem::offset_of!(ncclProfilerEventDescr_v3_t__bindgen_ty_1, proxyStep)
        - 0usize];
    [
        "Offset of field: ncclProfilerEventDescr_v3_t__bindgen_ty_1::kernelCh",
    ][::core::mem::offset_of!(ncclProfilerEventDescr_v3_t__bindgen_ty_1, kernelCh)
        - 0usize];
    [
        "Offset of field: ncclProfilerEventDescr_v3_t__bindgen_ty_1::netPlugin",
    ][::core::mem::offset_of!(ncclProfilerEventDescr_v3_t__bindgen_ty_1, netPlugin)
        - 0usize];
};
impl Default for ncclProfilerEventDescr_v3_t__bindgen_ty_1 {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    [
        "Size of ncclProfilerEventDescr_v3_t",
    ][::core::mem::size_of::<ncclProfilerEventDescr_v3_t>() - 120usize];
    [
        "Alignment of ncclProfilerEventDescr_v3_t",
    ][::core::mem::align_of::<ncclProfilerEventDescr_v3_t>() - 8usize];
    [
        "Offset of field: ncclProfilerEventDescr_v3_t::type_",
    ][::core::mem::offset_of!(ncclProfilerEventDescr_v3_t, type_) - 0usize];
    [
        "Offset of field: ncclProfilerEventDescr_v3_t::parentObj",
    ][::core::mem::offset_of!(ncclProfilerEventDescr_v3_t, parentObj) - 8usize];
    [
        "Offset of field: ncclProfilerEventDescr_v3_t::rank",
    ][::core::mem::offset_of!(ncclProfilerEventDescr_v3_t, rank) - 16usize];
};
impl Default for ncclProfilerEventDescr_v3_t {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct ncclProfilerEventDescr_v4_t {
    pub type_: u8,
    pub parentObj: *mut ::core::ffi::c_void,
    pub rank: ::core::ffi::c_int,
    pub __bindgen_anon_1: ncclProfilerEventDescr_v4_t__bindgen_ty_1,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub union ncclProfilerEventDescr_v4_t__bindgen_ty_1 {
    pub coll: ncclProfilerColl_v4_t,
    pub p2p: ncclProfilerP2p_v4_t,
    pub proxyOp: ncclProfilerProxyOp_v1_t,
    pub proxyStep: ncclProfilerProxyStep_v1_t,
    pub kernelCh: ncclProfilerKernelCh_v4_t,
    pub netPlugin: ncclProfilerNetPlugin_v3_t,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    [
        "Size of ncclProfilerEventDescr_v4_t__bindgen_ty_1",
    ][::core::mem::size_of::<ncclProfilerEventDescr_v4_t__bindgen_ty_1>() - 80usize];
    [
        "Alignment of ncclProfilerEventDescr_v4_t__bindgen_ty_1",
    ][::core::mem::align_of::<ncclProfilerEventDescr_v4_t__bindgen_ty_1>() - 8usize];
    [
        "Offset of field: ncclProfilerEventDescr_v4_t__bindgen_ty_1::coll",
    ][::core::mem::offset_of!(ncclProfilerEventDescr_v4_t__bindgen_ty_1, coll) - 0usize];
    [
        "Offset of field: ncclProfilerEventDescr_v4_t__bindgen_ty_1::p2p",
    ][::core::mem::offset_of!(ncclProfilerEventDescr_v4_t__bindgen_ty_1, p2p) - 0usize];
    [
        "Offset of field: ncclProfilerEventDescr_v4_t__bindgen_ty_1::proxyOp",
    ][::core::mem::offset_of!(ncclProfilerEventDescr_v4_t__bindgen_ty_1, proxyOp)
        - 0usize];
    [
        "Offset of field: ncclProfilerEventDescr_v4_t__bindgen_ty_1::proxyStep",
    ][::core::mem::offset_of!(ncclProfilerEventDescr_v4_t__bindgen_ty_1, proxyStep)
        - 0usize];
    [
        "Offset of field: ncclProfilerEventDescr_v4_t__bindgen_ty_1::kernelCh",
    ][::core::mem::offset_of!(ncclProfilerEventDescr_v4_t__bindgen_ty_1, kernelCh)
        - 0usize];
    [
        "Offset of field: ncclProfilerEventDescr_v4_t__bindgen_ty_1::netPlugin",
    ][::core::mem::offset_of!(ncclProfilerEventDescr_v4_t__bindgen_ty_1, netPlugin)
        - 0usize];
};
impl Default for ncclProfilerEventDescr_v4_t__bindgen_ty_1 {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    [
        "Size of ncclProfilerEventDescr_v4_t",
    ][::core::mem::size_of::<ncclProfilerEventDescr_v4_t>() - 104usize];
    [
        "Alignment of ncclProfilerEventDescr_v4_t",
    ][::core::mem::align_of::<ncclProfilerEventDescr_v4_t>() - 8usize];
    [
        "Offset of field: ncclProfilerEventDescr_v4_t::type_",
    ][::core::mem::offset_of!(ncclProfilerEventDescr_v4_t, type_) - 0usize];
    [
        "Offset of field: ncclProfilerEventDescr_v4_t::parentObj",
    ][::core::mem::offset_of!(ncclProfilerEventDescr_v4_t, parentObj) - 8usize];
    [
        "Offset of field: ncclProfilerEventDescr_v4_t::rank",
    ][::core::mem::offset_of!(ncclProfilerEventDescr_v4_t, rank) - 16usize];
};
impl Default for ncclProfilerEventDescr_v4_t {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct ncclProfilerEventDescr_v5_t {
    pub type_: u64,
    pub parentObj: *mut ::core::ffi::c_void,
    pub rank: ::core::ffi::c_int,
    pub __bindgen_anon_1: ncclProfilerEventDescr_v5_t__bindgen_ty_1,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub union ncclProfilerEventDescr_v5_t__bindgen_ty_1 {
    pub groupApi: ncclProfilerGroupApi_v5_t,
    pub collApi: ncclProfilerCollApi_v5_t,
    pub p2pApi: ncclProfilerP2pApi_v5_t,
    pub kernelLaunch: ncclProfilerKernelLaunch_v5_t,
    pub coll: ncclProfilerColl_v5_t,
    pub p2p: ncclProfilerP2p_v5_t,
    pub proxyOp: ncclProfilerProxyOp_v1_t,
    pub proxyStep: ncclProfilerProxyStep_v1_t,
    pub kernelCh: ncclProfilerKernelCh_v4_t,
    pub netPlugin: ncclProfilerNetPlugin_v3_t,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    [
        "Size of ncclProfilerEventDescr_v5_t__bindgen_ty_1",
    ][::core::mem::size_of::<ncclProfilerEventDescr_v5_t__bindgen_ty_1>() - 88usize];
    [
        "Alignment of ncclProfilerEventDescr_v5_t__bindgen_ty_1",
    ][::core::mem::align_of::<ncclProfilerEventDescr_v5_t__bindgen_ty_1>() - 8usize];
    [
        "Offset of field: ncclProfilerEventDescr_v5_t__bindgen_ty_1::groupApi",
    ][::core::mem::offset_of!(ncclProfilerEventDescr_v5_t__bindgen_ty_1, groupApi)
        - 0usize];
    [
        "Offset of field: ncclProfilerEventDescr_v5_t__bindgen_ty_1::collApi",
    ][::core::mem::offset_of!(ncclProfilerEventDescr_v5_t__bindgen_ty_1, collApi)
        - 0usize];
    [
        "Offset of field: ncclProfilerEventDescr_v5_t__bindgen_ty_1::p2pApi",
    ][::core::mem::offset_of!(ncclProfilerEventDescr_v5_t__bindgen_ty_1, p2pApi)
        - 0usize];
    [
        "Offset of field: ncclProfilerEventDescr_v5_t__bindgen_ty_1::kernelLaunch",
    ][::core::mem::offset_of!(ncclProfilerEventDescr_v5_t__bindgen_ty_1, kernelLaunch)
        - 0usize];
    [
        "Offset of field: ncclProfilerEventDescr_v5_t__bindgen_ty_1::coll",
    ][::core::mem::offset_of!(ncclProfilerEventDescr_v5_t__bindgen_ty_1, coll) - 0usize];
    [
        "Offset of field: ncclProfilerEventDescr_v5_t__bindgen_ty_1::p2p",
    ][::core::mem::offset_of!(ncclProfilerEventDescr_v5_t__bindgen_ty_1, p2p) - 0usize];
    [
        "Offset of field: ncclProfilerEventDescr_v5_t__bindgen_ty_1::proxyOp",
    ][::core::mem::offset_of!(ncclProfilerEventDescr_v5_t__bindgen_ty_1, proxyOp)
        - 0usize];
    [
        "Offset of field: ncclProfilerEventDescr_v5_t__bindgen_ty_1::proxyStep",
    ][::core::mem::offset_of!(ncclProfilerEventDescr_v5_t__bindgen_ty_1, proxyStep)
        - 0usize];
    [
        "Offset of field: ncclProfilerEventDescr_v5_t__bindgen_ty_1::kernelCh",
    ][::core::mem::offset_of!(ncclProfilerEventDescr_v5_t__bindgen_ty_1, kernelCh)
        - 0usize];
    [
        "Offset of field: ncclProfilerEventDescr_v5_t__bindgen_ty_1::netPlugin",
    ][::core::mem::offset_of!(ncclProfilerEventDescr_v5_t__bindgen_ty_1, netPlugin)
        - 0usize];
};
impl Default for ncclProfilerEventDescr_v5_t__bindgen_ty_1 {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    [
        "Size of ncclProfilerEventDescr_v5_t",
    ][::core::mem::size_of::<ncclProfilerEventDescr_v5_t>() - 112usize];
    [
        "Alignment of ncclProfilerEventDescr_v5_t",
    ][::core::mem::align_of::<ncclProfilerEventDescr_v5_t>() - 8usize];
    [
        "Offset of field: ncclProfilerEventDescr_v5_t::type_",
    ][::core::mem::offset_of!(ncclProfilerEventDescr_v5_t, type_) - 0usize];
    [
        "Offset of field: ncclProfilerEventDescr_v5_t::parentObj",
    ][::core::mem::offset_of!(ncclProfilerEventDescr_v5_t, parentObj) - 8usize];
    [
        "Offset of field: ncclProfilerEventDescr_v5_t::rank",
    ][::core::mem::offset_of!(ncclProfilerEventDescr_v5_t, rank) - 16usize];
};
impl Default for ncclProfilerEventDescr_v5_t {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct ncclProfilerEventDescr_v6_t {
    pub type_: u64,
    pub parentObj: *mut ::core::ffi::c_void,
    pub rank: ::core::ffi::c_int,
    pub __bindgen_anon_1: ncclProfilerEventDescr_v6_t__bindgen_ty_1,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub union ncclProfilerEventDescr_v6_t__bindgen_ty_1 {
    pub groupApi: ncclProfilerGroupApi_v5_t,
    pub collApi: ncclProfilerCollApi_v5_t,
    pub p2pApi: ncclProfilerP2pApi_v5_t,
    pub kernelLaunch: ncclProfilerKernelLaunch_v5_t,
    pub coll: ncclProfilerColl_v5_t,
    pub p2p: ncclProfilerP2p_v5_t,
    pub proxyOp: ncclProfilerProxyOp_v1_t,
    pub proxyStep: ncclProfilerProxyStep_v1_t,
    pub kernelCh: ncclProfilerKernelCh_v4_t,
    pub netPlugin: ncclProfilerNetPlugin_v3_t,
    pub ceColl: ncclProfilerCeColl_v6_t,
    pub ceCollSync: ncclProfilerCeCollSync_v6_t,
    pub ceCollBatch: ncclProfilerCeCollBatch_v6_t,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    [
        "Size of ncclProfilerEventDescr_v6_t__bindgen_ty_1",
    ][::core::mem::size_of::<ncclProfilerEventDescr_v6_t__bindgen_ty_1>() - 88usize];
    [
        "Alignment of ncclProfilerEventDescr_v6_t__bindgen_ty_1",
    ][::core::mem::align_of::<ncclProfilerEventDescr_v6_t__bindgen_ty_1>() - 8usize];
    [
        "Offset of field: ncclProfilerEventDescr_v6_t__bindgen_ty_1::groupApi",
    ][::core::mem::offset_of!(ncclProfilerEventDescr_v6_t__bindgen_ty_1, groupApi)
        - 0usize];
    [
        "Offset of field: ncclProfilerEventDescr_v6_t__bindgen_ty_1::collApi",
    ][::core::mem::offset_of!(ncclProfilerEventDescr_v6_t__bindgen_ty_1, collApi)
        - 0usize];
    [
        "Offset of field: ncclProfilerEventDescr_v6_t__bindgen_ty_1::p2pApi",
    ][::core::mem::offset_of!(ncclProfilerEventDescr_v6_t__bindgen_ty_1, p2pApi)
        - 0usize];
    [
        "Offset of field: ncclProfilerEventDescr_v6_t__bindgen_ty_1::kernelLaunch",
    ][::core::mem::offset_of!(ncclProfilerEventDescr_v6_t__bindgen_ty_1, kernelLaunch)
        - 0usize];
    [
        "Offset of field: ncclProfilerEventDescr_v6_t__bindgen_ty_1::coll",
    ][::core::mem::offset_of!(ncclProfilerEventDescr_v6_t__bindgen_ty_1, coll) - 0usize];
    [
        "Offset of field: ncclProfilerEventDescr_v6_t__bindgen_ty_1::p2p",
    ][::core::mem::offset_of!(ncclProfilerEventDescr_v6_t__bindgen_ty_1, p2p) - 0usize];
    [
        "Offset of field: ncclProfilerEventDescr_v6_t__bindgen_ty_1::proxyOp",
    ][::core::mem::offset_of!(ncclProfilerEventDescr_v6_t__bindgen_ty_1, proxyOp)
        - 0usize];
    [
        "Offset of field: ncclProfilerEventDescr_v6_t__bindgen_ty_1::proxyStep",
    ][::core::mem::offset_of!(ncclProfilerEventDescr_v6_t__bindgen_ty_1, proxyStep)
        - 0usize];
    [
        "Offset of field: ncclProfilerEventDescr_v6_t__bindgen_ty_1::kernelCh",
    ][::core::mem::offset_of!(ncclProfilerEventDescr_v6_t__bindgen_ty_1, kernelCh)
        - 0usize];
    [
        "Offset of field: ncclProfilerEventDescr_v6_t__bindgen_ty_1::netPlugin",
    ][::core::mem::offset_of!(ncclProfilerEventDescr_v6_t__bindgen_ty_1, netPlugin)
        - 0usize];
    [
        "Offset of field: ncclProfilerEventDescr_v6_t__bindgen_ty_1::ceColl",
    ][::core::mem::offset_of!(ncclProfilerEventDescr_v6_t__bindgen_ty_1, ceColl)
        - 0usize];
    [
        "Offset of field: ncclProfilerEventDescr_v6_t__bindgen_ty_1::ceCollSync",
    ][::core::mem::offset_of!(ncclProfilerEventDescr_v6_t__bindgen_ty_1, ceCollSync)
        - 0usize];
    [
        "Offset of field: ncclProfilerEventDescr_v6_t__bindgen_ty_1::ceCollBatch",
    ][::core::mem::offset_of!(ncclProfilerEventDescr_v6_t__bindgen_ty_1, ceCollBatch)
        - 0usize];
};
impl Default for ncclProfilerEventDescr_v6_t__bindgen_ty_1 {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    [
        "Size of ncclProfilerEventDescr_v6_t",
    ][::core::mem::size_of::<ncclProfilerEventDescr_v6_t>() - 112usize];
    [
        "Alignment of ncclProfilerEventDescr_v6_t",
    ][::core::mem::align_of::<ncclProfilerEventDescr_v6_t>() - 8usize];
    [
        "Offset of field: ncclProfilerEventDescr_v6_t::type_",
    ][::core::mem::offset_of!(ncclProfilerEventDescr_v6_t, type_) - 0usize];
    [
        "Offset of field: ncclProfilerEventDescr_v6_t::parentObj",
    ][::core::mem::offset_of!(ncclProfilerEventDescr_v6_t, parentObj) - 8usize];
    [
        "Offset of field: ncclProfilerEventDescr_v6_t::rank",
    ][::core::mem::offset_of!(ncclProfilerEventDescr_v6_t, rank) - 16usize];
};
impl Default for ncclProfilerEventDescr_v6_t {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct ncclProfilerEventDescr_v7_t {
    pub type_: u64,
    pub parentObj: *mut ::core::ffi::c_void,
    pub rank: ::core::ffi::c_int,
    pub __bindgen_anon_1: ncclProfilerEventDescr_v7_t__bindgen_ty_1,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub union ncclProfilerEventDescr_v7_t__bindgen_ty_1 {
    pub groupApi: ncclProfilerGroupApi_v5_t,
    pub collApi: ncclProfilerCollApi_v7_t,
    pub p2pApi: ncclProfilerP2pApi_v7_t,
    pub kernelLaunch: ncclProfilerKernelLaunch_v5_t,
    pub coll: ncclProfilerColl_v7_t,
    pub p2p: ncclProfilerP2p_v7_t,
    pub proxyOp: ncclProfilerProxyOp_v1_t,
    pub proxyStep: ncclProfilerProxyStep_v1_t,
    pub kernelCh: ncclProfilerKernelCh_v4_t,
    pub netPlugin: ncclProfilerNetPlugin_v3_t,
    pub ceColl: ncclProfilerCeColl_v7_t,
    pub ceCollSync: ncclProfilerCeCollSync_v6_t,
    pub ceCollBatch: ncclProfilerCeCollBatch_v6_t,
    pub kernelPhase: ncclProfilerKernelPhase_v7_t,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    [
        "Size of ncclProfilerEventDescr_v7_t__bindgen_ty_1",
    ][::core::mem::size_of::<ncclProfilerEventDescr_v7_t__bindgen_ty_1>() - 112usize];
    [
        "Alignment of ncclProfilerEventDescr_v7_t__bindgen_ty_1",
    ][::core::mem::align_of::<ncclProfilerEventDescr_v7_t__bindgen_ty_1>() - 8usize];
    [
        "Offset of field: ncclProfilerEventDescr_v7_t__bindgen_ty_1::groupApi",
    ][::core::mem::offset_of!(ncclProfilerEventDescr_v7_t__bindgen_ty_1, groupApi)
        - 0usize];
    [
        "Offset of field: ncclProfilerEventDescr_v7_t__bindgen_ty_1::collApi",
    ][::core::mem::offset_of!(ncclProfilerEventDescr_v7_t__bindgen_ty_1, collApi)
        - 0usize];
    [
        "Offset of field: ncclProfilerEventDescr_v7_t__bindgen_ty_1::p2pApi",
    ][::core::mem::offset_of!(ncclProfilerEventDescr_v7_t__bindgen_ty_1, p2pApi)
        - 0usize];
    [
        "Offset of field: ncclProfilerEventDescr_v7_t__bindgen_ty_1::kernelLaunch",
    ][::core::mem::offset_of!(ncclProfilerEventDescr_v7_t__bindgen_ty_1, kernelLaunch)
        - 0usize];
    [
        "Offset of field: ncclProfilerEventDescr_v7_t__bindgen_ty_1::coll",
    ][::core::mem::offset_of!(ncclProfilerEventDescr_v7_t__bindgen_ty_1, coll) - 0usize];
    [
        "Offset of field: ncclProfilerEventDescr_v7_t__bindgen_ty_1::p2p",
    ][::core::mem::offset_of!(ncclProfilerEventDescr_v7_t__bindgen_ty_1, p2p) - 0usize];
    [
        "Offset of field: ncclProfilerEventDescr_v7_t__bindgen_ty_1::proxyOp",
    ][::core::mem::offset_of!(ncclProfilerEventDescr_v7_t__bindgen_ty_1, proxyOp)
        - 0usize];
    [
        "Offset of field: ncclProfilerEventDescr_v7_t__bindgen_ty_1::proxyStep",
    ][::core::mem::offset_of!(ncclProfilerEventDescr_v7_t__bindgen_ty_1, proxyStep)
        - 0usize];
    [
        "Offset of field: ncclProfilerEventDescr_v7_t__bindgen_ty_1::kernelCh",
    ][::core::mem::offset_of!(ncclProfilerEventDescr_v7_t__bindgen_ty_1, kernelCh)
        - 0usize];
    [
        "Offset of field: ncclProfilerEventDescr_v7_t__bindgen_ty_1::netPlugin",
    ][::core::mem::offset_of!(ncclProfilerEventDescr_v7_t__bindgen_ty_1, netPlugin)
        - 0usize];
    [
        "Offset of field: ncclProfilerEventDescr_v7_t__bindgen_ty_1::ceColl",
    ][::core::mem::offset_of!(ncclProfilerEventDescr_v7_t__bindgen_ty_1, ceColl)
        - 0usize];
    [
        "Offset of field: ncclProfilerEventDescr_v7_t__bindgen_ty_1::ceCollSync",
    ][::core::mem::offset_of!(ncclProfilerEventDescr_v7_t__bindgen_ty_1, ceCollSync)
        - 0usize];
    [
        "Offset of field: ncclProfilerEventDescr_v7_t__bindgen_ty_1::ceCollBatch",
    ][::core::mem::offset_of!(ncclProfilerEventDescr_v7_t__bindgen_ty_1, ceCollBatch)
        - 0usize];
    [
        "Offset of field: ncclProfilerEventDescr_v7_t__bindgen_ty_1::kernelPhase",
    ][::core::mem::offset_of!(ncclProfilerEventDescr_v7_t__bindgen_ty_1, kernelPhase)
        - 0usize];
};
impl Default for ncclProfilerEventDescr_v7_t__bindgen_ty_1 {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    [
        "Size of ncclProfilerEventDescr_v7_t",
    ][::core::mem::size_of::<ncclProfilerEventDescr_v7_t>() - 136usize];
    [
        "Alignment of ncclProfilerEventDescr_v7_t",
    ][::core::mem::align_of::<ncclProfilerEventDescr_v7_t>() - 8usize];
    [
        "Offset of field: ncclProfilerEventDescr_v7_t::type_",
    ][::core::mem::offset_of!(ncclProfilerEventDescr_v7_t, type_) - 0usize];
    [
        "Offset of field: ncclProfilerEventDescr_v7_t::parentObj",
    ][::core::mem::offset_of!(ncclProfilerEventDescr_v7_t, parentObj) - 8usize];
    [
        "Offset of field: ncclProfilerEventDescr_v7_t::rank",
    ][::core::mem::offset_of!(ncclProfilerEventDescr_v7_t, rank) - 16usize];
};
impl Default for ncclProfilerEventDescr_v7_t {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
#[repr(C)]
#[derive(Default, Copy, Clone)]
pub struct ncclProfilerProxyOpArgs_v1_t {
    pub transSize: usize,
    pub steps: ::core::ffi::c_int,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    [
        "Size of ncclProfilerProxyOpArgs_v1_t",
    ][::core::mem::size_of::<ncclProfilerProxyOpArgs_v1_t>() - 16usize];
    [
        "Alignment of ncclProfilerProxyOpArgs_v1_t",
    ][::core::mem::align_of::<ncclProfilerProxyOpArgs_v1_t>() - 8usize];
    [
        "Offset of field: ncclProfilerProxyOpArgs_v1_t::transSize",
    ][::core::mem::offset_of!(ncclProfilerProxyOpArgs_v1_t, transSize) - 0usize];
    [
        "Offset of field: ncclProfilerProxyOpArgs_v1_t::steps",
    ][::core::mem::offset_of!(ncclProfilerProxyOpArgs_v1_t, steps) - 8usize];
};
#[repr(C)]
#[derive(Default, Copy, Clone)]
pub struct ncclProfilerProxyCtrlArgs_v1_t {
    pub appendedProxyOps: ::core::ffi::c_int,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    [
        "Size of ncclProfilerProxyCtrlArgs_v1_t",
    ][::core::mem::size_of::<ncclProfilerProxyCtrlArgs_v1_t>() - 4usize];
    [
        "Alignment of ncclProfilerProxyCtrlArgs_v1_t",
    ][::core::mem::align_of::<ncclProfilerProxyCtrlArgs_v1_t>() - 4usize];
    [
        "Offset of field: ncclProfilerProxyCtrlArgs_v1_t::appendedProxyOps",
    ][::core::mem::offset_of!(ncclProfilerProxyCtrlArgs_v1_t, appendedProxyOps)
        - 0usize];
};
#[repr(C)]
#[derive(Default, Copy, Clone)]
pub struct ncclProfilerProxyStepArgs_v4_t {
    pub transSize: usize,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    [
        "Size of ncclProfilerProxyStepArgs_v4_t",
    ][::core::mem::size_of::<ncclProfilerProxyStepArgs_v4_t>() - 8usize];
    [
        "Alignment of ncclProfilerProxyStepArgs_v4_t",
    ][::core::mem::align_of::<ncclProfilerProxyStepArgs_v4_t>() - 8usize];
    [
        "Offset of field: ncclProfilerProxyStepArgs_v4_t::transSize",
    ][::core::mem::offset_of!(ncclProfilerProxyStepArgs_v4_t, transSize) - 0usize];
};
#[repr(C)]
#[derive(Copy, Clone)]
pub struct ncclProfilerNetPluginArgs_v4_t {
    pub data: *mut ::core::ffi::c_void,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    [
        "Size of ncclProfilerNetPluginArgs_v4_t",
    ][::core::mem::size_of::<ncclProfilerNetPluginArgs_v4_t>() - 8usize];
    [
        "Alignment of ncclProfilerNetPluginArgs_v4_t",
    ][::core::mem::align_of::<ncclProfilerNetPluginArgs_v4_t>() - 8usize];
    [
        "Offset of field: ncclProfilerNetPluginArgs_v4_t::data",
    ][::core::mem::offset_of!(ncclProfilerNetPluginArgs_v4_t, data) - 0usize];
};
impl Default for ncclProfilerNetPluginArgs_v4_t {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
#[repr(C)]
#[derive(Default, Copy, Clone)]
pub struct ncclProfilerKernelChArgs_v4_t {
    pub pTimer: u64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    [
        "Size of ncclProfilerKernelChArgs_v4_t",
    ][::core::mem::size_of::<ncclProfilerKernelChArgs_v4_t>() - 8usize];
    [
        "Alignment of ncclProfilerKernelChArgs_v4_t",
    ][::core::mem::align_of::<ncclProfilerKernelChArgs_v4_t>() - 8usize];
    [
        "Offset of field: ncclProfilerKernelChArgs_v4_t::pTimer",
    ][::core::mem::offset_of!(ncclProfilerKernelChArgs_v4_t, pTimer) - 0usize];
};
#[repr(C)]
#[derive(Copy, Clone)]
pub union ncclProfilerEventStateArgs_v1_t {
    pub proxyOp: ncclProfilerProxyOpArgs_v1_t,
    pub proxyCtrl: ncclProfilerProxyCtrlArgs_v1_t,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    [
        "Size of ncclProfilerEventStateArgs_v1_t",
    ][::core::mem::size_of::<ncclProfilerEventStateArgs_v1_t>() - 16usize];
    [
        "Alignment of ncclProfilerEventStateArgs_v1_t",
    ][::core::mem::align_of::<ncclProfilerEventStateArgs_v1_t>() - 8usize];
    [
        "Offset of field: ncclProfilerEventStateArgs_v1_t::proxyOp",
    ][::core::mem::offset_of!(ncclProfilerEventStateArgs_v1_t, proxyOp) - 0usize];
    [
        "Offset of field: ncclProfilerEventStateArgs_v1_t::proxyCtrl",
    ][::core::mem::offset_of!(ncclProfilerEventStateArgs_v1_t, proxyCtrl) - 0usize];
};
impl Default for ncclProfilerEventStateArgs_v1_t {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
pub type ncclProfilerEventStateArgs_v2_t = ncclProfilerEventStateArgs_v1_t;
pub type ncclProfilerEventStateArgs_v3_t = ncclProfilerEventStateArgs_v1_t;
#[repr(C)]
#[derive(Copy, Clone)]
pub union ncclProfilerEventStateArgs_v4_t {
    pub proxyStep: ncclProfilerProxyStepArgs_v4_t,
    pub proxyCtrl: ncclProfilerProxyCtrlArgs_v1_t,
    pub netPlugin: ncclProfilerNetPluginArgs_v4_t,
    pub kernelCh: ncclProfilerKernelChArgs_v4_t,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    [
        "Size of ncclProfilerEventStateArgs_v4_t",
    ][::core::mem::size_of::<ncclProfilerEventStateArgs_v4_t>() - 8usize];
    [
        "Alignment of ncclProfilerEventStateArgs_v4_t",
    ][::core::mem::align_of::<ncclProfilerEventStateArgs_v4_t>() - 8usize];
    [
        "Offset of field: ncclProfilerEventStateArgs_v4_t::proxyStep",
    ][::core::mem::offset_of!(ncclProfilerEventStateArgs_v4_t, proxyStep) - 0usize];
    [
        "Offset of field: ncclProfilerEventStateArgs_v4_t::proxyCtrl",
    ][::core::mem::offset_of!(ncclProfilerEventStateArgs_v4_t, proxyCtrl) - 0usize];
    [
        "Offset of field: ncclProfilerEventStateArgs_v4_t::netPlugin",
    ][::core::mem::offset_of!(ncclProfilerEventStateArgs_v4_t, netPlugin) - 0usize];
    [
        "Offset of field: ncclProfilerEventStateArgs_v4_t::kernelCh",
    ][::core::mem::offset_of!(ncclProfilerEventStateArgs_v4_t, kernelCh) - 0usize];
};
impl Default for ncclProfilerEventStateArgs_v4_t {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
pub type ncclProfilerEventStateArgs_v5_t = ncclProfilerEventStateArgs_v4_t;
pub type ncclProfilerEventStateArgs_v6_t = ncclProfilerEventStateArgs_v4_t;
pub type ncclProfilerEventStateArgs_v7_t = ncclProfilerEventStateArgs_v4_t;
pub const ncclProfilerNetIbId_v1: ncclProfilerNetId_t = 65537;
pub const ncclProfilerNetSocketId_v1: ncclProfilerNetId_t = 131073;
pub type ncclProfilerNetId_t = ::core::ffi::c_uint;
#[repr(C)]
#[derive(Default, Copy, Clone)]
pub struct ncclProfilerNetIbQp_v1_t {
    pub device: ::core::ffi::c_int,
    pub wr_id: u64,
    pub opcode: ::core::ffi::c_int,
    pub qpNum: ::core::ffi::c_int,
    pub length: usize,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    [
        "Size of ncclProfilerNetIbQp_v1_t",
    ][::core::mem::size_of::<ncclProfilerNetIbQp_v1_t>() - 32usize];
    [
        "Alignment of ncclProfilerNetIbQp_v1_t",
    ][::core::mem::align_of::<ncclProfilerNetIbQp_v1_t>() - 8usize];
    [
        "Offset of field: ncclProfilerNetIbQp_v1_t::device",
    ][::core::mem::offset_of!(ncclProfilerNetIbQp_v1_t, device) - 0usize];
    [
        "Offset of field: ncclProfilerNetIbQp_v1_t::wr_id",
    ][::core::mem::offset_of!(ncclProfilerNetIbQp_v1_t, wr_id) - 8usize];
    [
        "Offset of field: ncclProfilerNetIbQp_v1_t::opcode",
    ][::core::mem::offset_of!(ncclProfilerNetIbQp_v1_t, opcode) - 16usize];
    [
        "Offset of field: ncclProfilerNetIbQp_v1_t::qpNum",
    ][::core::mem::offset_of!(ncclProfilerNetIbQp_v1_t, qpNum) - 20usize];
    [
        "Offset of field: ncclProfilerNetIbQp_v1_t::length",
    ][::core::mem::offset_of!(ncclProfilerNetIbQp_v1_t, length) - 24usize];
};
#[repr(C)]
#[derive(Copy, Clone)]
pub struct ncclProfilerNetIbDescr_v1_t {
    pub type_: u8,
    pub __bindgen_anon_1: ncclProfilerNetIbDescr_v1_t__bindgen_ty_1,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub union ncclProfilerNetIbDescr_v1_t__bindgen_ty_1 {
    pub qp: ncclProfilerNetIbQp_v1_t,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    [
        "Size of ncclProfilerNetIbDescr_v1_t__bindgen_ty_1",
    ][::core::mem::size_of::<ncclProfilerNetIbDescr_v1_t__bindgen_ty_1>() - 32usize];
    [
        "Alignment of ncclProfilerNetIbDescr_v1_t__bindgen_ty_1",
    ][::core::mem::align_of::<ncclProfilerNetIbDescr_v1_t__bindgen_ty_1>() - 8usize];
    [
        "Offset of field: ncclProfilerNetIbDescr_v1_t__bindgen_ty_1::qp",
    ][::core::mem::offset_of!(ncclProfilerNetIbDescr_v1_t__bindgen_ty_1, qp) - 0usize];
};
impl Default for ncclProfilerNetIbDescr_v1_t__bindgen_ty_1 {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    [
        "Size of ncclProfilerNetIbDescr_v1_t",
    ][::core::mem::size_of::<ncclProfilerNetIbDescr_v1_t>() - 40usize];
    [
        "Alignment of ncclProfilerNetIbDescr_v1_t",
    ][::core::mem::align_of::<ncclProfilerNetIbDescr_v1_t>() - 8usize];
    [
        "Offset of field: ncclProfilerNetIbDescr_v1_t::type_",
    ][::core::mem::offset_of!(ncclProfilerNetIbDescr_v1_t, type_) - 0usize];
};
impl Default for ncclProfilerNetIbDescr_v1_t {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
#[repr(C)]
#[derive(Default, Copy, Clone)]
pub struct ncclProfilerNetSock_v1_t {
    pub fd: ::core::ffi::c_int,
    pub op: ::core::ffi::c_int,
    pub length: usize,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    [
        "Size of ncclProfilerNetSock_v1_t",
    ][::core::mem::size_of::<ncclProfilerNetSock_v1_t>() - 16usize];
    [
        "Alignment of ncclProfilerNetSock_v1_t",
    ][::core::mem::align_of::<ncclProfilerNetSock_v1_t>() - 8usize];
    [
        "Offset of field: ncclProfilerNetSock_v1_t::fd",
    ][::core::mem::offset_of!(ncclProfilerNetSock_v1_t, fd) - 0usize];
    [
        "Offset of field: ncclProfilerNetSock_v1_t::op",
    ][::core::mem::offset_of!(ncclProfilerNetSock_v1_t, op) - 4usize];
    [
        "Offset of field: ncclProfilerNetSock_v1_t::length",
    ][::core::mem::offset_of!(ncclProfilerNetSock_v1_t, length) - 8usize];
};
#[repr(C)]
#[derive(Copy, Clone)]
pub struct ncclProfilerNetSockDescr_v1_t {
    pub type_: u8,
    pub __bindgen_anon_1: ncclProfilerNetSockDescr_v1_t__bindgen_ty_1,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub union ncclProfilerNetSockDescr_v1_t__bindgen_ty_1 {
    pub sock: ncclProfilerNetSock_v1_t,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    [
        "Size of ncclProfilerNetSockDescr_v1_t__bindgen_ty_1",
    ][::core::mem::size_of::<ncclProfilerNetSockDescr_v1_t__bindgen_ty_1>() - 16usize];
    [
        "Alignment of ncclProfilerNetSockDescr_v1_t__bindgen_ty_1",
    ][::core::mem::align_of::<ncclProfilerNetSockDescr_v1_t__bindgen_ty_1>() - 8usize];
    [
        "Offset of field: ncclProfilerNetSockDescr_v1_t__bindgen_ty_1::sock",
    ][::core::mem::offset_of!(ncclProfilerNetSockDescr_v1_t__bindgen_ty_1, sock)
        - 0usize];
};
impl Default for ncclProfilerNetSockDescr_v1_t__bindgen_ty_1 {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    [
        "Size of ncclProfilerNetSockDescr_v1_t",
    ][::core::mem::size_of::<ncclProfilerNetSockDescr_v1_t>() - 24usize];
    [
        "Alignment of ncclProfilerNetSockDescr_v1_t",
    ][::core::mem::align_of::<ncclProfilerNetSockDescr_v1_t>() - 8usize];
    [
        "Offset of field: ncclProfilerNetSockDescr_v1_t::type_",
    ][::core::mem::offset_of!(ncclProfilerNetSockDescr_v1_t, type_) - 0usize];
};
impl Default for ncclProfilerNetSockDescr_v1_t {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct ncclProfiler_v1_t {
    pub name: *const ::core::ffi::c_char,
    pub init: ::core::option::Option<
        unsafe extern "C" fn(
            context: *mut *mut ::core::ffi::c_void,
            eActivationMask: *mut ::core::ffi::c_int,
        ) -> ncclResult_t,
    >,
    pub startEvent: ::core::option::Option<
        unsafe extern "C" fn(
            context: *mut ::core::ffi::c_void,
            eHandle: *mut *mut ::core::ffi::c_void,
            eDescr: *mut ncclProfilerEventDescr_v1_t,
        ) -> ncclResult_t,
    >,
    pub stopEvent: ::core::option::Option<
        unsafe extern "C" fn(eHandle: *mut ::core::ffi::c_void) -> ncclResult_t,
    >,
    pub recordEventState: ::core::option::Option<
        unsafe extern "C" fn(
            eHandle: *mut ::core::ffi::c_void,
            eState: ncclProfilerEventState_v1_t,
            eStateArgs: *mut ncclProfilerEventStateArgs_v1_t,
        ) -> ncclResult_t,
    >,
    pub finalize: ::core::option::Option<
        unsafe extern "C" fn(context: *mut ::core::ffi::c_void) -> ncclResult_t,
    >,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of ncclProfiler_v1_t"][::core::mem::size_of::<ncclProfiler_v1_t>() - 48usize];
    [
        "Alignment of ncclProfiler_v1_t",
    ][::core::mem::align_of::<ncclProfiler_v1_t>() - 8usize];
    [
        "Offset of field: ncclProfiler_v1_t::name",
    ][::core::mem::offset_of!(ncclProfiler_v1_t, name) - 0usize];
    [
        "Offset of field: ncclProfiler_v1_t::init",
    ][::core::mem::offset_of!(ncclProfiler_v1_t, init) - 8usize];
    [
        "Offset of field: ncclProfiler_v1_t::startEvent",
    ][::core::mem::offset_of!(ncclProfiler_v1_t, startEvent) - 16usize];
    [
        "Offset of field: ncclProfiler_v1_t::stopEvent",
    ][::core::mem::offset_of!(ncclProfiler_v1_t, stopEvent) - 24usize];
    [
        "Offset of field: ncclProfiler_v1_t::recordEventState",
    ][::core::mem::offset_of!(ncclProfiler_v1_t, recordEventState) - 32usize];
    [
        "Offset of field: ncclProfiler_v1_t::finalize",
    ][::core::mem::offset_of!(ncclProfiler_v1_t, finalize) - 40usize];
};
impl Default for ncclProfiler_v1_t {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct ncclProfiler_v2_t {
    pub name: *const ::core::ffi::c_char,
    pub init: ::core::option::Option<
        unsafe extern "C" fn(
            context: *mut *mut ::core::ffi::c_void,
            eActivationMask: *mut ::core::ffi::c_int,
        ) -> ncclResult_t,
    >,
    pub startEvent: ::core::option::Option<
        unsafe extern "C" fn(
            context: *mut ::core::ffi::c_void,
            eHandle: *mut *mut ::core::ffi::c_void,
            eDescr: *mut ncclProfilerEventDescr_v2_t,
        ) -> ncclResult_t,
    >,
    pub stopEvent: ::core::option::Option<
        unsafe extern "C" fn(eHandle: *mut ::core::ffi::c_void) -> ncclResult_t,
    >,
    pub recordEventState: ::core::option::Option<
        unsafe extern "C" fn(
            eHandle: *mut ::core::ffi::c_void,
            eState: ncclProfilerEventState_v2_t,
            eStateArgs: *mut ncclProfilerEventStateArgs_v2_t,
        ) -> ncclResult_t,
    >,
    pub finalize: ::core::option::Option<
        unsafe extern "C" fn(context: *mut ::core::ffi::c_void) -> ncclResult_t,
    >,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of ncclProfiler_v2_t"][::core::mem::size_of::<ncclProfiler_v2_t>() - 48usize];
    [
        "Alignment of ncclProfiler_v2_t",
    ][::core::mem::align_of::<ncclProfiler_v2_t>() - 8usize];
    [
        "Offset of field: ncclProfiler_v2_t::name",
    ][::core::mem::offset_of!(ncclProfiler_v2_t, name) - 0usize];
    [
        "Offset of field: ncclProfiler_v2_t::init",
    ][::core::mem::offset_of!(ncclProfiler_v2_t, init) - 8usize];
    [
        "Offset of field: ncclProfiler_v2_t::startEvent",
    ][::core::mem::offset_of!(ncclProfiler_v2_t, startEvent) - 16usize];
    [
        "Offset of field: ncclProfiler_v2_t::stopEvent",
    ][::core::mem::offset_of!(ncclProfiler_v2_t, stopEvent) - 24usize];
    [
        "Offset of field: ncclProfiler_v2_t::recordEventState",
    ][::core::mem::offset_of!(ncclProfiler_v2_t, recordEventState) - 32usize];
    [
        "Offset of field: ncclProfiler_v2_t::finalize",
    ][::core::mem::offset_of!(ncclProfiler_v2_t, finalize) - 40usize];
};
impl Default for ncclProfiler_v2_t {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct ncclProfiler_v3_t {
    pub name: *const ::core::ffi::c_char,
    pub init: ::core::option::Option<
        unsafe extern "C" fn(
            context: *mut *mut ::core::ffi::c_void,
            eActivationMask: *mut ::core::ffi::c_int,
        ) -> ncclResult_t,
    >,
    pub startEvent: ::core::option::Option<
        unsafe extern "C" fn(
            context: *mut ::core::ffi::c_void,
            eHandle: *mut *mut ::core::ffi::c_void,
            eDescr: *mut ncclProfilerEventDescr_v3_t,
        ) -> ncclResult_t,
    >,
    pub stopEvent: ::core::option::Option<
        unsafe extern "C" fn(eHandle: *mut ::core::ffi::c_void) -> ncclResult_t,
    >,
    pub recordEventState: ::core::option::Option<
        unsafe extern "C" fn(
            eHandle: *mut ::core::ffi::c_void,
            eState: ncclProfilerEventState_v3_t,
            eStateArgs: *mut ncclProfilerEventStateArgs_v3_t,
        ) -> ncclResult_t,
    >,
    pub finalize: ::core::option::Option<
        unsafe extern "C" fn(context: *mut ::core::ffi::c_void) -> ncclResult_t,
    >,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of ncclProfiler_v3_t"][::core::mem::size_of::<ncclProfiler_v3_t>() - 48usize];
    [
        "Alignment of ncclProfiler_v3_t",
    ][::core::mem::align_of::<ncclProfiler_v3_t>() - 8usize];
    [
        "Offset of field: ncclProfiler_v3_t::name",
    ][::core::mem::offset_of!(ncclProfiler_v3_t, name) - 0usize];
    [
        "Offset of field: ncclProfiler_v3_t::init",
    ][::core::mem::offset_of!(ncclProfiler_v3_t, init) - 8usize];
    [
        "Offset of field: ncclProfiler_v3_t::startEvent",
    ][::core::mem::offset_of!(ncclProfiler_v3_t, startEvent) - 16usize];
    [
        "Offset of field: ncclProfiler_v3_t::stopEvent",
    ][::core::mem::offset_of!(ncclProfiler_v3_t, stopEvent) - 24usize];
    [
        "Offset of field: ncclProfiler_v3_t::recordEventState",
    ][::core::mem::offset_of!(ncclProfiler_v3_t, recordEventState) - 32usize];
    [
        "Offset of field: ncclProfiler_v3_t::finalize",
    ][::core::mem::offset_of!(ncclProfiler_v3_t, finalize) - 40usize];
};
impl Default for ncclProfiler_v3_t {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct ncclProfiler_v4_t {
    pub name: *const ::core::ffi::c_char,
    pub init: ::core::option::Option<
        unsafe extern "C" fn(
            context: *mut *mut ::core::ffi::c_void,
            eActivationMask: *mut ::core::ffi::c_int,
            commName: *const ::core::ffi::c_char,
            commHash: u64,
            nNodes: ::core::ffi::c_int,
            nranks: ::core::ffi::c_int,
            rank: ::core::ffi::c_int,
            logfn: ncclDebugLogger_t,
        ) -> ncclResult_t,
    >,
    pub startEvent: ::core::option::Option<
        unsafe extern "C" fn(
            context: *mut ::core::ffi::c_void,
            eHandle: *mut *mut ::core::ffi::c_void,
            eDescr: *mut ncclProfilerEventDescr_v4_t,
        ) -> ncclResult_t,
    >,
    pub stopEvent: ::core::option::Option<
        unsafe extern "C" fn(eHandle: *mut ::core::ffi::c_void) -> ncclResult_t,
    >,
    pub recordEventState: ::core::option::Option<
        unsafe extern "C" fn(
            eHandle: *mut ::core::ffi::c_void,
            eState: ncclProfilerEventState_v4_t,
            eStateArgs: *mut ncclProfilerEventStateArgs_v4_t,
        ) -> ncclResult_t,
    >,
    pub finalize: ::core::option::Option<
        unsafe extern "C" fn(context: *mut ::core::ffi::c_void) -> ncclResult_t,
    >,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of ncclProfiler_v4_t"][::core::mem::size_of::<ncclProfiler_v4_t>() - 48usize];
    [
        "Alignment of ncclProfiler_v4_t",
    ][::core::mem::align_of::<ncclProfiler_v4_t>() - 8usize];
    [
        "Offset of field: ncclProfiler_v4_t::name",
    ][::core::mem::offset_of!(ncclProfiler_v4_t, name) - 0usize];
    [
        "Offset of field: ncclProfiler_v4_t::init",
    ][::core::mem::offset_of!(ncclProfiler_v4_t, init) - 8usize];
    [
        "Offset of field: ncclProfiler_v4_t::startEvent",
    ][::core::mem::offset_of!(ncclProfiler_v4_t, startEvent) - 16usize];
    [
        "Offset of field: ncclProfiler_v4_t::stopEvent",
    ][::core::mem::offset_of!(ncclProfiler_v4_t, stopEvent) - 24usize];
    [
        "Offset of field: ncclProfiler_v4_t::recordEventState",
    ][::core::mem::offset_of!(ncclProfiler_v4_t, recordEventState) - 32usize];
    [
        "Offset of field: ncclProfiler_v4_t::finalize",
    ][::core::mem::offset_of!(ncclProfiler_v4_t, finalize) - 40usize];
};
impl Default for ncclProfiler_v4_t {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct ncclProfiler_v5_t {
    pub name: *const ::core::ffi::c_char,
    pub init: ::core::option::Option<
        unsafe extern "C" fn(
            context: *mut *mut ::core::ffi::c_void,
            commId: u64,
            eActivationMask: *mut ::core::ffi::c_int,
            commName: *const ::core::ffi::c_char,
            nNodes: ::core::ffi::c_int,
            nranks: ::core::ffi::c_int,
            rank: ::core::ffi::c_int,
            logfn: ncclDebugLogger_t,
        ) -> ncclResult_t,
    >,
    pub startEvent: ::core::option::Option<
        unsafe extern "C" fn(
            context: *mut ::core::ffi::c_void,
            eHandle: *mut *mut ::core::ffi::c_void,
            eDescr: *mut ncclProfilerEventDescr_v5_t,
        ) -> ncclResult_t,
    >,
    pub stopEvent: ::core::option::Option<
        unsafe extern "C" fn(eHandle: *mut ::core::ffi::c_void) -> ncclResult_t,
    >,
    pub recordEventState: ::core::option::Option<
        unsafe extern "C" fn(
            eHandle: *mut ::core::ffi::c_void,
            eState: ncclProfilerEventState_v5_t,
            eStateArgs: *mut ncclProfilerEventStateArgs_v5_t,
        ) -> ncclResult_t,
    >,
    pub finalize: ::core::option::Option<
        unsafe extern "C" fn(context: *mut ::core::ffi::c_void) -> ncclResult_t,
    >,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of ncclProfiler_v5_t"][::core::mem::size_of::<ncclProfiler_v5_t>() - 48usize];
    [
        "Alignment of ncclProfiler_v5_t",
    ][::core::mem::align_of::<ncclProfiler_v5_t>() - 8usize];
    [
        "Offset of field: ncclProfiler_v5_t::name",
    ][::core::mem::offset_of!(ncclProfiler_v5_t, name) - 0usize];
    [
        "Offset of field: ncclProfiler_v5_t::init",
    ][::core::mem::offset_of!(ncclProfiler_v5_t, init) - 8usize];
    [
        "Offset of field: ncclProfiler_v5_t::startEvent",
    ][::core::mem::offset_of!(ncclProfiler_v5_t, startEvent) - 16usize];
    [
        "Offset of field: ncclProfiler_v5_t::stopEvent",
    ][::core::mem::offset_of!(ncclProfiler_v5_t, stopEvent) - 24usize];
    [
        "Offset of field: ncclProfiler_v5_t::recordEventState",
    ][::core::mem::offset_of!(ncclProfiler_v5_t, recordEventState) - 32usize];
    [
        "Offset of field: ncclProfiler_v5_t::finalize",
    ][::core::mem::offset_of!(ncclProfiler_v5_t, finalize) - 40usize];
};
impl Default for ncclProfiler_v5_t {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct ncclProfiler_v6_t {
    pub name: *const ::core::ffi::c_char,
    pub init: ::core::option::Option<
        unsafe extern "C" fn(
            context: *mut *mut ::core::ffi::c_void,
            commId: u64,
            eActivationMask: *mut ::core::ffi::c_int,
            commName: *const ::core::ffi::c_char,
            nNodes: ::core::ffi::c_int,
            nranks: ::core::ffi::c_int,
            rank: ::core::ffi::c_int,
            logfn: ncclDebugLogger_t,
        ) -> ncclResult_t,
    >,
    pub startEvent: ::core::option::Option<
        unsafe extern "C" fn(
            context: *mut ::core::ffi::c_void,
            eHandle: *mut *mut ::core::ffi::c_void,
            eDescr: *mut ncclProfilerEventDescr_v6_t,
        ) -> ncclResult_t,
    >,
    pub stopEvent: ::core::option::Option<
        unsafe extern "C" fn(eHandle: *mut ::core::ffi::c_void) -> ncclResult_t,
    >,
    pub recordEventState: ::core::option::Option<
        unsafe extern "C" fn(
            eHandle: *mut ::core::ffi::c_void,
            eState: ncclProfilerEventState_v6_t,
            eStateArgs: *mut ncclProfilerEventStateArgs_v6_t,
        ) -> ncclResult_t,
    >,
    pub finalize: ::core::option::Option<
        unsafe extern "C" fn(context: *mut ::core::ffi::c_void) -> ncclResult_t,
    >,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of ncclProfiler_v6_t"][::core::mem::size_of::<ncclProfiler_v6_t>() - 48usize];
    [
        "Alignment of ncclProfiler_v6_t",
    ][::core::mem::align_of::<ncclProfiler_v6_t>() - 8usize];
    [
        "Offset of field: ncclProfiler_v6_t::name",
    ][::core::mem::offset_of!(ncclProfiler_v6_t, name) - 0usize];
    [
        "Offset of field: ncclProfiler_v6_t::init",
    ][::core::mem::offset_of!(ncclProfiler_v6_t, init) - 8usize];
    [
        "Offset of field: ncclProfiler_v6_t::startEvent",
    ][::core::mem::offset_of!(ncclProfiler_v6_t, startEvent) - 16usize];
    [
        "Offset of field: ncclProfiler_v6_t::stopEvent",
    ][::core::mem::offset_of!(ncclProfiler_v6_t, stopEvent) - 24usize];
    [
        "Offset of field: ncclProfiler_v6_t::recordEventState",
    ][::core::mem::offset_of!(ncclProfiler_v6_t, recordEventState) - 32usize];
    [
        "Offset of field: ncclProfiler_v6_t::finalize",
    ][::core::mem::offset_of!(ncclProfiler_v6_t, finalize) - 40usize];
};
impl Default for ncclProfiler_v6_t {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct ncclProfiler_v7_t {
    pub name: *const ::core::ffi::c_char,
    pub init: ::core::option::Option<
        unsafe extern "C" fn(
            context: *mut *mut ::core::ffi::c_void,
            commId: u64,
            eActivationMask: *mut ::core::ffi::c_int,
            commName: *const ::core::ffi::c_char,
            nNodes: ::core::ffi::c_int,
            nranks: ::core::ffi::c_int,
            rank: ::core::ffi::c_int,
            logfn: ncclDebugLogger_t,
        ) -> ncclResult_t,
    >,
    pub startEvent: ::core::option::Option<
        unsafe extern "C" fn(
            context: *mut ::core::ffi::c_void,
            eHandle: *mut *mut ::core::ffi::c_void,
            eDescr: *mut ncclProfilerEventDescr_v7_t,
        ) -> ncclResult_t,
    >,
    pub stopEvent: ::core::option::Option<
        unsafe extern "C" fn(eHandle: *mut ::core::ffi::c_void) -> ncclResult_t,
    >,
    pub recordEventState: ::core::option::Option<
        unsafe extern "C" fn(
            eHandle: *mut ::core::ffi::c_void,
            eState: ncclProfilerEventState_v7_t,
            eStateArgs: *mut ncclProfilerEventStateArgs_v7_t,
        ) -> ncclResult_t,
    >,
    pub finalize: ::core::option::Option<
        unsafe extern "C" fn(context: *mut ::core::ffi::c_void) -> ncclResult_t,
    >,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of ncclProfiler_v7_t"][::core::mem::size_of::<ncclProfiler_v7_t>() - 48usize];
    [
        "Alignment of ncclProfiler_v7_t",
    ][::core::mem::align_of::<ncclProfiler_v7_t>() - 8usize];
    [
        "Offset of field: ncclProfiler_v7_t::name",
    ][::core::mem::offset_of!(ncclProfiler_v7_t, name) - 0usize];
    [
        "Offset of field: ncclProfiler_v7_t::init",
    ][::core::mem::offset_of!(ncclProfiler_v7_t, init) - 8usize];
    [
        "Offset of field: ncclProfiler_v7_t::startEvent",
    ][::core::mem::offset_of!(ncclProfiler_v7_t, startEvent) - 16usize];
    [
        "Offset of field: ncclProfiler_v7_t::stopEvent",
    ][::core::mem::offset_of!(ncclProfiler_v7_t, stopEvent) - 24usize];
    [
        "Offset of field: ncclProfiler_v7_t::recordEventState",
    ][::core::mem::offset_of!(ncclProfiler_v7_t, recordEventState) - 32usize];
    [
        "Offset of field: ncclProfiler_v7_t::finalize",
    ][::core::mem::offset_of!(ncclProfiler_v7_t, finalize) - 40usize];
};
impl Default for ncclProfiler_v7_t {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
