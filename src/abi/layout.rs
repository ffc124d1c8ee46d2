//! What size and offset every field of NCCL's structures has, as measured on NCCL's own headers and in
//! libnccl 2.32.3 (LP64): asserted against the bindings when this crate is compiled, and against the C
//! compiler's view of `wrapper.h` by `tests/abi/layout.rs`.
//!
//! The numbers are typed in. A field whose number is wrong here or there does not compile.

use std::mem::{MaybeUninit, offset_of};

use super::sys::*;

/// One fact: `field` of `structure` is `size` bytes at `offset`. A structure itself has an empty field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fact {
    /// The C name of the structure or union.
    pub structure: &'static str,
    /// The field as C names it (but `type_` for `type`), through the anonymous union; empty for the whole structure.
    pub field: &'static str,
    /// Bytes from the start.
    pub offset: usize,
    /// Bytes.
    pub size: usize,
}

const fn fact(structure: &'static str, field: &'static str, offset: usize, size: usize) -> Fact {
    Fact { structure, field, offset, size }
}

const fn size_behind<T>(_field: *const T) -> usize {
    size_of::<T>()
}

/// Asserts and lists. A field is `name: offset size;`. A structure's own stand in brackets, those of the anonymous
/// union stand under `union`, those of a type that is itself a union under `members`; each has its own fields in
/// braces.
macro_rules! layout {
    ($($list:ident: $structure:ident = $size:literal {
        $([$($field:ident: $offset:literal $bytes:literal;)*])?
        $(union { $($union:tt)* })?
        $(members { $($members:tt)* })?
    })*) => {
        $(
            const $list: &[Fact] = {
                assert!(size_of::<$structure>() == $size);
                assert!(align_of::<$structure>() == 8);
                $($(layout!(@check $structure, ($field), $offset, $bytes);)*)?
                $(layout!(@members $structure, [__bindgen_anon_1.], $($union)*);)?
                $(layout!(@members $structure, [], $($members)*);)?
                layout!(@list $structure = $size, { $($($field: $offset $bytes;)*)? } $($($union)*)? $($($members)*)?)
            };
        )*
        /// Every fact, by structure.
        pub const FACTS: &[&[Fact]] = &[$($list),*];
    };
    (@members $structure:ident, $base:tt, $($member:ident: $offset:literal $bytes:literal {
        $($inner:ident: $inner_offset:literal $inner_bytes:literal;)*
    })*) => {
        $(
            layout!(@based $structure, $base, ($member), $offset, $bytes);
            $(layout!(@based $structure, $base, ($member.$inner), $inner_offset, $inner_bytes);)*
        )*
    };
    (@based $structure:ident, [$($base:tt)*], ($($path:tt)+), $offset:literal, $bytes:literal) => {
        layout!(@check $structure, ($($base)* $($path)+), $offset, $bytes);
    };
    (@check $structure:ident, ($($path:tt)+), $offset:literal, $bytes:literal) => {
        assert!(offset_of!($structure, $($path)+) == $offset);
        let memory = MaybeUninit::<$structure>::uninit();
        let pointer = memory.as_ptr();
        // SAFETY: takes an address inside `memory`, which is in scope, and reads nothing.
        let field = unsafe { &raw const (*pointer).$($path)+ };
        assert!(size_behind(field) == $bytes);
    };
    (@list $structure:ident = $size:literal, { $($field:ident: $offset:literal $bytes:literal;)* }
        $($member:ident: $member_offset:literal $member_bytes:literal {
            $($inner:ident: $inner_offset:literal $inner_bytes:literal;)*
        })*
    ) => {
        &[
            fact(stringify!($structure), "", 0, $size),
            $(fact(stringify!($structure), stringify!($field), $offset, $bytes),)*
            $(
                fact(stringify!($structure), stringify!($member), $member_offset, $member_bytes),
                $(fact(
                    stringify!($structure),
                    concat!(stringify!($member), ".", stringify!($inner)),
                    $inner_offset,
                    $inner_bytes,
                ),)*
            )*
        ]
    };
}

layout! {
    DESCR_V1: ncclProfilerEventDescr_v1_t = 120 {
        [type_: 0 1; parentObj: 8 8; rank: 16 4;]
        union {
            coll: 24 96 {
                name: 24 8; commHash: 32 8; seqNumber: 40 8; func: 48 1; sendBuff: 56 8; recvBuff: 64 8; count: 72 8;
                root: 80 4; datatype: 84 1; op: 88 4; trafficBytes: 96 8; nMaxChannels: 104 1; nWarps: 105 1;
                algo: 106 1; proto: 107 1; isCollnet: 108 4; isNvls: 112 4;
            }
            p2p: 24 56 { name: 24 8; commHash: 32 8; func: 40 1; buff: 48 8; datatype: 56 1; count: 64 8; peer: 72 4; }
            proxyOp: 24 24 { pid: 24 4; channelId: 28 1; peer: 32 4; nSteps: 36 4; chunkSize: 40 4; isSend: 44 4; }
            proxyStep: 24 4 { step: 24 4; }
        }
    }
    ARGS_V1: ncclProfilerEventStateArgs_v1_t = 16 {
        members {
            proxyOp: 0 16 { transSize: 0 8; steps: 8 4; }
            proxyCtrl: 0 4 { appendedProxyOps: 0 4; }
        }
    }
    TABLE_V1: ncclProfiler_v1_t = 48 {
        [name: 0 8; init: 8 8; startEvent: 16 8; stopEvent: 24 8; recordEventState: 32 8; finalize: 40 8;]
    }
    DESCR_V2: ncclProfilerEventDescr_v2_t = 128 {
        [type_: 0 1; parentObj: 8 8; rank: 16 4;]
        union {
            coll: 24 104 {
                name: 24 8; commHash: 32 8; seqNumber: 40 8; func: 48 8; sendBuff: 56 8; recvBuff: 64 8; count: 72 8;
                root: 80 4; datatype: 88 8; trafficBytes: 96 8; nMaxChannels: 104 1; nWarps: 105 1; algo: 112 8;
                proto: 120 8;
            }
            p2p: 24 56 { name: 24 8; commHash: 32 8; func: 40 8; buff: 48 8; datatype: 56 8; count: 64 8; peer: 72 4; }
            proxyOp: 24 24 { pid: 24 4; channelId: 28 1; peer: 32 4; nSteps: 36 4; chunkSize: 40 4; isSend: 44 4; }
            proxyStep: 24 4 { step: 24 4; }
        }
    }
    ARGS_V2: ncclProfilerEventStateArgs_v2_t = 16 {
        members {
            proxyOp: 0 16 { transSize: 0 8; steps: 8 4; }
            proxyCtrl: 0 4 { appendedProxyOps: 0 4; }
        }
    }
    TABLE_V2: ncclProfiler_v2_t = 48 {
        [name: 0 8; init: 8 8; startEvent: 16 8; stopEvent: 24 8; recordEventState: 32 8; finalize: 40 8;]
    }
    DESCR_V3: ncclProfilerEventDescr_v3_t = 120 {
        [type_: 0 1; parentObj: 8 8; rank: 16 4;]
        union {
            coll: 24 96 {
                name: 24 8; commHash: 32 8; seqNumber: 40 8; func: 48 8; sendBuff: 56 8; recvBuff: 64 8; count: 72 8;
                root: 80 4; datatype: 88 8; nMaxChannels: 96 1; nWarps: 97 1; algo: 104 8; proto: 112 8;
            }
            p2p: 24 56 { name: 24 8; commHash: 32 8; func: 40 8; buff: 48 8; datatype: 56 8; count: 64 8; peer: 72 4; }
            proxyOp: 24 24 { pid: 24 4; channelId: 28 1; peer: 32 4; nSteps: 36 4; chunkSize: 40 4; isSend: 44 4; }
            proxyStep: 24 4 { step: 24 4; }
            kernelCh: 24 1 { channelId: 24 1; }
            netPlugin: 24 16 { id: 24 8; data: 32 8; }
        }
    }
    ARGS_V3: ncclProfilerEventStateArgs_v3_t = 16 {
        members {
            proxyOp: 0 16 { transSize: 0 8; steps: 8 4; }
            proxyCtrl: 0 4 { appendedProxyOps: 0 4; }
        }
    }
    TABLE_V3: ncclProfiler_v3_t = 48 {
        [name: 0 8; init: 8 8; startEvent: 16 8; stopEvent: 24 8; recordEventState: 32 8; finalize: 40 8;]
    }
    DESCR_V4: ncclProfilerEventDescr_v4_t = 104 {
        [type_: 0 1; parentObj: 8 8; rank: 16 4;]
        union {
            coll: 24 80 {
                seqNumber: 24 8; func: 32 8; sendBuff: 40 8; recvBuff: 48 8; count: 56 8; root: 64 4; datatype: 72 8;
                nChannels: 80 1; nWarps: 81 1; algo: 88 8; proto: 96 8;
            }
            p2p: 24 40 { func: 24 8; buff: 32 8; datatype: 40 8; count: 48 8; peer: 56 4; nChannels: 60 1; }
            proxyOp: 24 24 { pid: 24 4; channelId: 28 1; peer: 32 4; nSteps: 36 4; chunkSize: 40 4; isSend: 44 4; }
            proxyStep: 24 4 { step: 24 4; }
            kernelCh: 24 16 { channelId: 24 1; pTimer: 32 8; }
            netPlugin: 24 16 { id: 24 8; data: 32 8; }
        }
    }
    ARGS_V4: ncclProfilerEventStateArgs_v4_t = 8 {
        members {
            proxyStep: 0 8 { transSize: 0 8; }
            proxyCtrl: 0 4 { appendedProxyOps: 0 4; }
            netPlugin: 0 8 { data: 0 8; }
            kernelCh: 0 8 { pTimer: 0 8; }
        }
    }
    TABLE_V4: ncclProfiler_v4_t = 48 {
        [name: 0 8; init: 8 8; startEvent: 16 8; stopEvent: 24 8; recordEventState: 32 8; finalize: 40 8;]
    }
    DESCR_V5: ncclProfilerEventDescr_v5_t = 112 {
        [type_: 0 8; parentObj: 8 8; rank: 16 4;]
        union {
            groupApi: 24 8 { graphCaptured: 24 1; groupDepth: 28 4; }
            collApi: 24 48 { func: 24 8; count: 32 8; datatype: 40 8; root: 48 4; stream: 56 8; graphCaptured: 64 1; }
            p2pApi: 24 40 { func: 24 8; count: 32 8; datatype: 40 8; stream: 48 8; graphCaptured: 56 1; }
            kernelLaunch: 24 8 { stream: 24 8; }
            coll: 24 88 {
                seqNumber: 24 8; func: 32 8; sendBuff: 40 8; recvBuff: 48 8; count: 56 8; root: 64 4; datatype: 72 8;
                nChannels: 80 1; nWarps: 81 1; algo: 88 8; proto: 96 8; parentGroup: 104 8;
            }
            p2p: 24 48 {
                func: 24 8; buff: 32 8; datatype: 40 8; count: 48 8; peer: 56 4; nChannels: 60 1; parentGroup: 64 8;
            }
            proxyOp: 24 24 { pid: 24 4; channelId: 28 1; peer: 32 4; nSteps: 36 4; chunkSize: 40 4; isSend: 44 4; }
            proxyStep: 24 4 { step: 24 4; }
            kernelCh: 24 16 { channelId: 24 1; pTimer: 32 8; }
            netPlugin: 24 16 { id: 24 8; data: 32 8; }
        }
    }
    ARGS_V5: ncclProfilerEventStateArgs_v5_t = 8 {
        members {
            proxyStep: 0 8 { transSize: 0 8; }
            proxyCtrl: 0 4 { appendedProxyOps: 0 4; }
            netPlugin: 0 8 { data: 0 8; }
            kernelCh: 0 8 { pTimer: 0 8; }
        }
    }
    TABLE_V5: ncclProfiler_v5_t = 48 {
        [name: 0 8; init: 8 8; startEvent: 16 8; stopEvent: 24 8; recordEventState: 32 8; finalize: 40 8;]
    }
    DESCR_V6: ncclProfilerEventDescr_v6_t = 112 {
        [type_: 0 8; parentObj: 8 8; rank: 16 4;]
        union {
            groupApi: 24 8 { graphCaptured: 24 1; groupDepth: 28 4; }
            collApi: 24 48 { func: 24 8; count: 32 8; datatype: 40 8; root: 48 4; stream: 56 8; graphCaptured: 64 1; }
            p2pApi: 24 40 { func: 24 8; count: 32 8; datatype: 40 8; stream: 48 8; graphCaptured: 56 1; }
            kernelLaunch: 24 8 { stream: 24 8; }
            coll: 24 88 {
                seqNumber: 24 8; func: 32 8; sendBuff: 40 8; recvBuff: 48 8; count: 56 8; root: 64 4; datatype: 72 8;
                nChannels: 80 1; nWarps: 81 1; algo: 88 8; proto: 96 8; parentGroup: 104 8;
            }
            p2p: 24 48 {
                func: 24 8; buff: 32 8; datatype: 40 8; count: 48 8; peer: 56 4; nChannels: 60 1; parentGroup: 64 8;
            }
            proxyOp: 24 24 { pid: 24 4; channelId: 28 1; peer: 32 4; nSteps: 36 4; chunkSize: 40 4; isSend: 44 4; }
            proxyStep: 24 4 { step: 24 4; }
            kernelCh: 24 16 { channelId: 24 1; pTimer: 32 8; }
            netPlugin: 24 16 { id: 24 8; data: 32 8; }
            ceColl: 24 88 {
                seqNumber: 24 8; func: 32 8; sendBuff: 40 8; recvBuff: 48 8; count: 56 8; root: 64 4; datatype: 72 8;
                syncStrategy: 80 8; intraBatchSync: 88 1; batchSize: 92 4; numBatches: 96 4; ceSeqNum: 100 4;
                stream: 104 8;
            }
            ceCollSync: 24 8 { isComplete: 24 1; nRanks: 28 4; }
            ceCollBatch: 24 24 { numOps: 24 4; totalBytes: 32 8; useIntraSync: 40 1; }
        }
    }
    ARGS_V6: ncclProfilerEventStateArgs_v6_t = 8 {
        members {
            proxyStep: 0 8 { transSize: 0 8; }
            proxyCtrl: 0 4 { appendedProxyOps: 0 4; }
            netPlugin: 0 8 { data: 0 8; }
            kernelCh: 0 8 { pTimer: 0 8; }
        }
    }
    TABLE_V6: ncclProfiler_v6_t = 48 {
        [name: 0 8; init: 8 8; startEvent: 16 8; stopEvent: 24 8; recordEventState: 32 8; finalize: 40 8;]
    }
    DESCR_V7: ncclProfilerEventDescr_v7_t = 136 {
        [type_: 0 8; parentObj: 8 8; rank: 16 4;]
        union {
            groupApi: 24 8 { graphCaptured: 24 1; groupDepth: 28 4; }
            collApi: 24 56 {
                func: 24 8; count: 32 8; datatype: 40 8; root: 48 4; stream: 56 8; graphCaptured: 64 1;
                userTag: 72 8;
            }
            p2pApi: 24 48 { func: 24 8; count: 32 8; datatype: 40 8; stream: 48 8; graphCaptured: 56 1; userTag: 64 8; }
            kernelLaunch: 24 8 { stream: 24 8; }
            coll: 24 112 {
                seqNumber: 24 8; func: 32 8; sendBuff: 40 8; recvBuff: 48 8; count: 56 8; root: 64 4; datatype: 72 8;
                nChannels: 80 1; nWarps: 81 1; algo: 88 8; proto: 96 8; parentGroup: 104 8; kernelVariant: 112 8;
                isSymColl: 120 1; userTag: 128 8;
            }
            p2p: 24 56 {
                func: 24 8; buff: 32 8; datatype: 40 8; count: 48 8; peer: 56 4; nChannels: 60 1; parentGroup: 64 8;
                userTag: 72 8;
            }
            proxyOp: 24 24 { pid: 24 4; channelId: 28 1; peer: 32 4; nSteps: 36 4; chunkSize: 40 4; isSend: 44 4; }
            proxyStep: 24 4 { step: 24 4; }
            kernelCh: 24 16 { channelId: 24 1; pTimer: 32 8; }
            netPlugin: 24 16 { id: 24 8; data: 32 8; }
            ceColl: 24 96 {
                seqNumber: 24 8; func: 32 8; sendBuff: 40 8; recvBuff: 48 8; count: 56 8; root: 64 4; datatype: 72 8;
                syncStrategy: 80 8; intraBatchSync: 88 1; batchSize: 92 4; numBatches: 96 4; ceSeqNum: 100 4;
                stream: 104 8; userTag: 112 8;
            }
            ceCollSync: 24 8 { isComplete: 24 1; nRanks: 28 4; }
            ceCollBatch: 24 24 { numOps: 24 4; totalBytes: 32 8; useIntraSync: 40 1; }
            kernelPhase: 24 24 { channelId: 24 1; phaseId: 25 1; phaseName: 32 8; pTimer: 40 8; }
        }
    }
    ARGS_V7: ncclProfilerEventStateArgs_v7_t = 8 {
        members {
            proxyStep: 0 8 { transSize: 0 8; }
            proxyCtrl: 0 4 { appendedProxyOps: 0 4; }
            netPlugin: 0 8 { data: 0 8; }
            kernelCh: 0 8 { pTimer: 0 8; }
        }
    }
    TABLE_V7: ncclProfiler_v7_t = 48 {
        [name: 0 8; init: 8 8; startEvent: 16 8; stopEvent: 24 8; recordEventState: 32 8; finalize: 40 8;]
    }
    NET_IB: ncclProfilerNetIbDescr_v1_t = 40 {
        [type_: 0 1;]
        union {
            qp: 8 32 { device: 8 4; wr_id: 16 8; opcode: 24 4; qpNum: 28 4; length: 32 8; }
        }
    }
    NET_SOCKET: ncclProfilerNetSockDescr_v1_t = 24 {
        [type_: 0 1;]
        union {
            sock: 8 16 { fd: 8 4; op: 12 4; length: 16 8; }
        }
    }
}
