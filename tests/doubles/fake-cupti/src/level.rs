//! The releases of CUPTI, by what `cuptiGetVersion` says: what each exports, and how long its records are.

/// CUDA 12.3: buffers per thread can be asked for.
pub(crate) const PER_THREAD_ATTRIBUTE: u32 = 21;
/// CUDA 12.9: NULL may be given for a buffer.
pub(crate) const NULL_BUFFER: u32 = 27;
/// CUDA 13.0: buffers per thread unless switched off.
pub(crate) const PER_THREAD_DEFAULT: u32 = 130_000;
/// CUDA 13.2: the first functions of a subscriber's own.
pub(crate) const V2_BEGUN: u32 = 130_200;
/// CUDA 13.3: the two families exclude each other.
pub(crate) const V2_COMPLETE: u32 = 130_300;

pub(crate) fn is_known(level: u32) -> bool {
    const KNOWN: [u32; 15] = [18, 20, 21, 22, 23, 24, 26, 27, 28, 130_001, 130_101, 130_202, 130_301, 130_401, 130_500];
    KNOWN.contains(&level) || level > 130_500
}

/// `CUpti_ActivityKind`
pub(crate) mod kind {
    pub(crate) const MEMCPY: u32 = 1;
    pub(crate) const KERNEL: u32 = 3;
    pub(crate) const DRIVER: u32 = 4;
    pub(crate) const RUNTIME: u32 = 5;
    pub(crate) const CONCURRENT_KERNEL: u32 = 10;
    pub(crate) const EXTERNAL_CORRELATION: u32 = 39;
    /// The first that no release has.
    pub(crate) const COUNT: u32 = 64;
}

/// Length of a record of this kind in bytes; nothing for a kind that is never written.
pub(crate) fn record_len(level: u32, kind: u32) -> Option<usize> {
    Some(match kind {
        kind::MEMCPY => match level {
            ..26 => 88,
            26..130_400 => 96,
            _ => 112,
        },
        kind::CONCURRENT_KERNEL => match level {
            ..130_000 => 208,
            130_000..130_100 => 216,
            130_100..130_300 => 224,
            130_300..130_400 => 232,
            130_400..=130_500 => 248,
            // Of a release to come.
            _ => 320,
        },
        kind::DRIVER | kind::RUNTIME => 40,
        kind::EXTERNAL_CORRELATION => 24,
        _ => return None,
    })
}

pub(crate) fn first_with(function: &str) -> u32 {
    match function {
        "cuptiActivityEnableDriverApi" | "cuptiActivityEnableRuntimeApi" => 23,
        "cuptiSubscribe_v2" => PER_THREAD_DEFAULT,
        "cuptiActivityRegisterCallbacks_v2"
        | "cuptiActivityEnable_v2"
        | "cuptiActivityDisable_v2"
        | "cuptiActivitySetAttribute_v2" => V2_BEGUN,
        "cuptiIsTracingSessionRunning" => V2_COMPLETE,
        name if name.ends_with("_v2") => V2_COMPLETE,
        _ => 0,
    }
}
