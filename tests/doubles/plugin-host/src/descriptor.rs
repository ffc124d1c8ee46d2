//! Builds the C structures of each version from [`Fields`].
//!
//! As in NCCL the descriptor is zeroed and then filled with the member of its kind; behind its end, where
//! NCCL has whatever is on its stack, lies a pattern, so that a plugin that reads too far shows it.

use std::array;
use std::ffi::c_void;
use std::mem::size_of;
use std::ptr;

use nccl_profiler_otf2::abi::sys;

use crate::fields::Fields;
use crate::kind::Kind;
use crate::v1_numbers;
use crate::version::Version;

/// What lies behind the end of a descriptor.
const BEHIND: u64 = 0xa5a5_a5a5_a5a5_a5a5;
/// Larger than the largest descriptor (v7: 136 bytes).
const WORDS: usize = Fields::MOST_BYTES / size_of::<u64>();

/// A descriptor of any version.
#[derive(Clone, Copy)]
#[repr(C)]
pub union Descriptor {
    pub(crate) v1: sys::ncclProfilerEventDescr_v1_t,
    pub(crate) v2: sys::ncclProfilerEventDescr_v2_t,
    pub(crate) v3: sys::ncclProfilerEventDescr_v3_t,
    pub(crate) v4: sys::ncclProfilerEventDescr_v4_t,
    pub(crate) v5: sys::ncclProfilerEventDescr_v5_t,
    pub(crate) v6: sys::ncclProfilerEventDescr_v6_t,
    pub(crate) v7: sys::ncclProfilerEventDescr_v7_t,
    words: [u64; WORDS],
}

/// A handle or another number where C has a pointer.
pub(crate) fn address(number: u64) -> *mut c_void {
    ptr::with_exposed_provenance_mut(usize::try_from(number).unwrap_or(usize::MAX))
}

fn size(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// The members that all versions, or v5 and later, share. A macro because each version's descriptor is a
/// type of its own.
macro_rules! common {
    ($raw:expr, $kind:expr, $fields:expr) => {{
        let fields = $fields;
        match $kind {
            Kind::PROXY_OP => {
                $raw.__bindgen_anon_1.proxyOp = sys::ncclProfilerProxyOp_v1_t {
                    pid: fields.pid,
                    channelId: fields.channel,
                    peer: fields.peer,
                    nSteps: fields.steps,
                    chunkSize: fields.chunk_bytes,
                    isSend: i32::from(fields.is_send),
                };
            }
            Kind::PROXY_STEP => {
                $raw.__bindgen_anon_1.proxyStep =
                    sys::ncclProfilerProxyStep_v1_t { step: fields.step }
            }
            _ => {}
        }
    }};
}

macro_rules! net_plugin {
    ($raw:expr, $fields:expr) => {
        $raw.__bindgen_anon_1.netPlugin = sys::ncclProfilerNetPlugin_v3_t {
            id: $fields.net_id,
            data: address($fields.net_data),
        }
    };
}

macro_rules! kernel_ch_v4 {
    ($raw:expr, $fields:expr) => {
        $raw.__bindgen_anon_1.kernelCh = sys::ncclProfilerKernelCh_v4_t {
            channelId: $fields.channel,
            pTimer: $fields.gpu_ns,
        }
    };
}

/// Coll: v2 to v7 differ in what stands around these members, given as `$more`.
macro_rules! coll {
    ($type:ident, $fields:expr, $channels:ident, { $($more:ident: $value:expr),* $(,)? }) => {
        sys::$type {
            seqNumber: $fields.sequence,
            func: $fields.func.as_ptr(),
            sendBuff: address($fields.send_buffer),
            recvBuff: address($fields.recv_buffer),
            count: size($fields.count),
            root: $fields.root,
            datatype: $fields.datatype.as_ptr(),
            $channels: $fields.channels,
            nWarps: $fields.warps,
            algo: $fields.algorithm.as_ptr(),
            proto: $fields.protocol.as_ptr(),
            $($more: $value,)*
        }
    };
}

macro_rules! p2p {
    ($type:ident, $fields:expr, { $($more:ident: $value:expr),* $(,)? }) => {
        sys::$type {
            func: $fields.func.as_ptr(),
            buff: address($fields.buffer),
            datatype: $fields.datatype.as_ptr(),
            count: size($fields.count),
            peer: $fields.peer,
            $($more: $value,)*
        }
    };
}

/// v5, v6 and v7: the API kinds and launches; `$tag` is what v7 adds.
macro_rules! api {
    ($raw:expr, $kind:expr, $fields:expr, $coll:ident, $p2p:ident, { $($tag:ident: $value:expr)? }) => {{
        let fields = $fields;
        match $kind {
            Kind::GROUP_API => {
                $raw.__bindgen_anon_1.groupApi = sys::ncclProfilerGroupApi_v5_t {
                    graphCaptured: u8::from(fields.graph_captured),
                    groupDepth: fields.depth,
                };
            }
            Kind::COLL_API => {
                $raw.__bindgen_anon_1.collApi = sys::$coll {
                    func: fields.func.as_ptr(),
                    count: size(fields.count),
                    datatype: fields.datatype.as_ptr(),
                    root: fields.root,
                    stream: address(fields.stream),
                    graphCaptured: u8::from(fields.graph_captured),
                    $($tag: $value,)?
                };
            }
            Kind::P2P_API => {
                $raw.__bindgen_anon_1.p2pApi = sys::$p2p {
                    func: fields.func.as_ptr(),
                    count: size(fields.count),
                    datatype: fields.datatype.as_ptr(),
                    stream: address(fields.stream),
                    graphCaptured: u8::from(fields.graph_captured),
                    $($tag: $value,)?
                };
            }
            Kind::KERNEL_LAUNCH => {
                $raw.__bindgen_anon_1.kernelLaunch = sys::ncclProfilerKernelLaunch_v5_t {
                    stream: address(fields.stream),
                };
            }
            _ => {}
        }
    }};
}

/// v6 and v7: the copy-engine kinds.
macro_rules! copy_engine {
    ($raw:expr, $kind:expr, $fields:expr, $coll:ident, { $($tag:ident: $value:expr)? }) => {{
        let fields = $fields;
        match $kind {
            Kind::CE_COLL => {
                $raw.__bindgen_anon_1.ceColl = sys::$coll {
                    seqNumber: fields.sequence,
                    func: fields.func.as_ptr(),
                    sendBuff: address(fields.send_buffer),
                    recvBuff: address(fields.recv_buffer),
                    count: size(fields.count),
                    root: fields.root,
                    datatype: fields.datatype.as_ptr(),
                    syncStrategy: fields.sync_strategy.as_ptr(),
                    intraBatchSync: u8::from(fields.intra_batch_sync),
                    batchSize: fields.batch_size,
                    numBatches: fields.batches,
                    ceSeqNum: fields.ce_sequence,
                    stream: address(fields.stream),
                    $($tag: $value,)?
                };
            }
            Kind::CE_SYNC => {
                $raw.__bindgen_anon_1.ceCollSync = sys::ncclProfilerCeCollSync_v6_t {
                    isComplete: u8::from(fields.is_complete),
                    nRanks: fields.ranks,
                };
            }
            Kind::CE_BATCH => {
                $raw.__bindgen_anon_1.ceCollBatch = sys::ncclProfilerCeCollBatch_v6_t {
                    numOps: fields.operations,
                    totalBytes: size(fields.bytes),
                    useIntraSync: u8::from(fields.intra_sync),
                };
            }
            _ => {}
        }
    }};
}

/// The header; `$type` is one byte up to v4.
macro_rules! header {
    ($raw:expr, $event_type:expr, $parent:expr, $rank:expr) => {{
        $raw.type_ = $event_type;
        $raw.parentObj = address($parent);
        $raw.rank = $rank;
    }};
}

impl Descriptor {
    /// The descriptor of an event for a plugin of this version.
    #[must_use]
    pub fn new(version: Version, kind: Kind, parent: u64, rank: i32, fields: &Fields) -> Self {
        let end = Self::bytes(version) / size_of::<u64>();
        let mut raw = Self {
            words: array::from_fn(|word| if word < end { 0 } else { BEHIND }),
        };
        // Up to v4 the type is one byte: NCCL's shims keep wider types from such a plugin.
        let narrow = u8::try_from(kind.event_type()).unwrap_or(0);
        match version {
            Version::V1 => {
                header!(raw.v1, narrow, parent, rank);
                raw.fill_v1(kind, fields);
            }
            Version::V2 => {
                header!(raw.v2, narrow, parent, rank);
                raw.fill_v2(kind, fields);
            }
            Version::V3 => {
                header!(raw.v3, narrow, parent, rank);
                raw.fill_v3(kind, fields);
            }
            Version::V4 => {
                header!(raw.v4, narrow, parent, rank);
                raw.fill_v4(kind, fields);
            }
            Version::V5 => {
                header!(raw.v5, kind.event_type(), parent, rank);
                raw.fill_v5(kind, fields);
            }
            Version::V6 => {
                header!(raw.v6, kind.event_type(), parent, rank);
                raw.fill_v6(kind, fields);
            }
            Version::V7 => {
                header!(raw.v7, kind.event_type(), parent, rank);
                raw.fill_v7(kind, fields);
            }
        }
        raw
    }

    /// `sizeof` of a version's descriptor.
    #[must_use]
    pub const fn bytes(version: Version) -> usize {
        match version {
            Version::V1 => size_of::<sys::ncclProfilerEventDescr_v1_t>(),
            Version::V2 => size_of::<sys::ncclProfilerEventDescr_v2_t>(),
            Version::V3 => size_of::<sys::ncclProfilerEventDescr_v3_t>(),
            Version::V4 => size_of::<sys::ncclProfilerEventDescr_v4_t>(),
            Version::V5 => size_of::<sys::ncclProfilerEventDescr_v5_t>(),
            Version::V6 => size_of::<sys::ncclProfilerEventDescr_v6_t>(),
            Version::V7 => size_of::<sys::ncclProfilerEventDescr_v7_t>(),
        }
    }

    /// Replaces `parentObj`, which all versions have at the same place.
    pub fn set_parent(&mut self, parent: u64) {
        self.v7.parentObj = address(parent);
    }

    /// Replaces `parentGroup` of a Coll or P2p; versions before 5 have none.
    pub fn set_parent_group(&mut self, version: Version, kind: Kind, group: u64) {
        if version.number() < 5 {
            return;
        }
        match kind {
            Kind::COLL => self.v7.__bindgen_anon_1.coll.parentGroup = address(group),
            Kind::P2P => self.v7.__bindgen_anon_1.p2p.parentGroup = address(group),
            _ => {}
        }
    }

    /// Overwrites `width` bytes at an offset with a number (little-endian): for what no field says, garbage and
    /// forks of the interface. Returns whether the bytes lie inside what the plugin is given.
    pub fn poke(&mut self, offset: usize, width: usize, value: u64) -> bool {
        let inside = offset
            .checked_add(width)
            .is_some_and(|end| end <= size_of::<Self>());
        if !inside || width > size_of::<u64>() {
            return false;
        }
        let source = value.to_le_bytes();
        // SAFETY: the range lies inside `self`, as just checked; `source` has at least `width` bytes; a
        // descriptor has no value that its bytes could not have.
        unsafe {
            ptr::from_mut(self)
                .cast::<u8>()
                .wrapping_add(offset)
                .copy_from_nonoverlapping(source.as_ptr(), width);
        }
        true
    }

    fn fill_v1(&mut self, kind: Kind, fields: &Fields) {
        match kind {
            Kind::COLL => {
                self.v1.__bindgen_anon_1.coll = sys::ncclProfilerColl_v1_t {
                    name: fields.comm_name.as_ptr(),
                    commHash: fields.comm_hash,
                    seqNumber: fields.sequence,
                    func: number(fields.func.as_str(), v1_numbers::func),
                    sendBuff: address(fields.send_buffer),
                    recvBuff: address(fields.recv_buffer),
                    count: size(fields.count),
                    root: fields.root,
                    datatype: number(fields.datatype.as_str(), v1_numbers::datatype),
                    op: fields.op,
                    trafficBytes: size(fields.traffic_bytes),
                    nMaxChannels: fields.channels,
                    nWarps: fields.warps,
                    algo: number(fields.algorithm.as_str(), v1_numbers::algorithm),
                    proto: number(fields.protocol.as_str(), v1_numbers::protocol),
                    isCollnet: fields.is_collnet,
                    isNvls: fields.is_nvls,
                };
            }
            Kind::P2P => {
                self.v1.__bindgen_anon_1.p2p = sys::ncclProfilerP2p_v1_t {
                    name: fields.comm_name.as_ptr(),
                    commHash: fields.comm_hash,
                    func: number(fields.func.as_str(), v1_numbers::func),
                    buff: address(fields.buffer),
                    datatype: number(fields.datatype.as_str(), v1_numbers::datatype),
                    count: size(fields.count),
                    peer: fields.peer,
                };
            }
            _ => common!(self.v1, kind, fields),
        }
    }

    fn fill_v2(&mut self, kind: Kind, fields: &Fields) {
        match kind {
            Kind::COLL => {
                self.v2.__bindgen_anon_1.coll = coll!(ncclProfilerColl_v2_t, fields, nMaxChannels, {
                    name: fields.comm_name.as_ptr(),
                    commHash: fields.comm_hash,
                    trafficBytes: size(fields.traffic_bytes),
                });
            }
            Kind::P2P => {
                self.v2.__bindgen_anon_1.p2p = p2p!(ncclProfilerP2p_v2_t, fields, {
                    name: fields.comm_name.as_ptr(),
                    commHash: fields.comm_hash,
                });
            }
            _ => common!(self.v2, kind, fields),
        }
    }

    fn fill_v3(&mut self, kind: Kind, fields: &Fields) {
        match kind {
            Kind::COLL => {
                self.v3.__bindgen_anon_1.coll = coll!(ncclProfilerColl_v3_t, fields, nMaxChannels, {
                    name: fields.comm_name.as_ptr(),
                    commHash: fields.comm_hash,
                });
            }
            Kind::P2P => {
                self.v3.__bindgen_anon_1.p2p = p2p!(ncclProfilerP2p_v2_t, fields, {
                    name: fields.comm_name.as_ptr(),
                    commHash: fields.comm_hash,
                });
            }
            Kind::KERNEL_CH => {
                self.v3.__bindgen_anon_1.kernelCh = sys::ncclProfilerKernelCh_v3_t {
                    channelId: fields.channel,
                };
            }
            Kind::NET_PLUGIN => net_plugin!(self.v3, fields),
            _ => common!(self.v3, kind, fields),
        }
    }

    fn fill_v4(&mut self, kind: Kind, fields: &Fields) {
        match kind {
            Kind::COLL => {
                self.v4.__bindgen_anon_1.coll = coll!(ncclProfilerColl_v4_t, fields, nChannels, {});
            }
            Kind::P2P => {
                self.v4.__bindgen_anon_1.p2p = p2p!(ncclProfilerP2p_v4_t, fields, {
                    nChannels: fields.channels,
                });
            }
            Kind::KERNEL_CH => kernel_ch_v4!(self.v4, fields),
            Kind::NET_PLUGIN => net_plugin!(self.v4, fields),
            _ => common!(self.v4, kind, fields),
        }
    }

    fn fill_v5(&mut self, kind: Kind, fields: &Fields) {
        match kind {
            Kind::COLL => {
                self.v5.__bindgen_anon_1.coll = coll!(ncclProfilerColl_v5_t, fields, nChannels, {
                    parentGroup: address(fields.parent_group),
                });
            }
            Kind::P2P => {
                self.v5.__bindgen_anon_1.p2p = p2p!(ncclProfilerP2p_v5_t, fields, {
                    nChannels: fields.channels,
                    parentGroup: address(fields.parent_group),
                });
            }
            Kind::KERNEL_CH => kernel_ch_v4!(self.v5, fields),
            Kind::NET_PLUGIN => net_plugin!(self.v5, fields),
            _ => {
                common!(self.v5, kind, fields);
                api!(
                    self.v5,
                    kind,
                    fields,
                    ncclProfilerCollApi_v5_t,
                    ncclProfilerP2pApi_v5_t,
                    {}
                );
            }
        }
    }

    fn fill_v6(&mut self, kind: Kind, fields: &Fields) {
        match kind {
            Kind::COLL => {
                self.v6.__bindgen_anon_1.coll = coll!(ncclProfilerColl_v5_t, fields, nChannels, {
                    parentGroup: address(fields.parent_group),
                });
            }
            Kind::P2P => {
                self.v6.__bindgen_anon_1.p2p = p2p!(ncclProfilerP2p_v5_t, fields, {
                    nChannels: fields.channels,
                    parentGroup: address(fields.parent_group),
                });
            }
            Kind::KERNEL_CH => kernel_ch_v4!(self.v6, fields),
            Kind::NET_PLUGIN => net_plugin!(self.v6, fields),
            _ => {
                common!(self.v6, kind, fields);
                api!(
                    self.v6,
                    kind,
                    fields,
                    ncclProfilerCollApi_v5_t,
                    ncclProfilerP2pApi_v5_t,
                    {}
                );
                copy_engine!(self.v6, kind, fields, ncclProfilerCeColl_v6_t, {});
            }
        }
    }

    fn fill_v7(&mut self, kind: Kind, fields: &Fields) {
        match kind {
            Kind::COLL => {
                self.v7.__bindgen_anon_1.coll = coll!(ncclProfilerColl_v7_t, fields, nChannels, {
                    parentGroup: address(fields.parent_group),
                    kernelVariant: fields.kernel_variant.as_ptr(),
                    isSymColl: u8::from(fields.is_symmetric),
                    userTag: fields.user_tag,
                });
            }
            Kind::P2P => {
                self.v7.__bindgen_anon_1.p2p = p2p!(ncclProfilerP2p_v7_t, fields, {
                    nChannels: fields.channels,
                    parentGroup: address(fields.parent_group),
                    userTag: fields.user_tag,
                });
            }
            Kind::KERNEL_CH => kernel_ch_v4!(self.v7, fields),
            Kind::NET_PLUGIN => net_plugin!(self.v7, fields),
            Kind::KERNEL_PHASE => {
                self.v7.__bindgen_anon_1.kernelPhase = sys::ncclProfilerKernelPhase_v7_t {
                    channelId: fields.channel,
                    phaseId: fields.phase,
                    phaseName: fields.phase_name.as_ptr(),
                    pTimer: fields.gpu_ns,
                };
            }
            _ => {
                common!(self.v7, kind, fields);
                api!(self.v7, kind, fields, ncclProfilerCollApi_v7_t, ncclProfilerP2pApi_v7_t, {
                    userTag: fields.user_tag
                });
                copy_engine!(self.v7, kind, fields, ncclProfilerCeColl_v7_t, { userTag: fields.user_tag });
            }
        }
    }
}

/// A number of version 1: given as a number (`#9`, to be able to say an unknown one), else by name.
fn number(text: &str, by_name: fn(&str) -> u8) -> u8 {
    text.strip_prefix('#')
        .and_then(|digits| digits.parse().ok())
        .unwrap_or_else(|| by_name(text))
}
