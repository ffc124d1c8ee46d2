//! The kinds of events and their fields, and NCCL's strings, which are borrowed for the duration of a callback. One
//! declaration per kind, with the first version of the interface that has the kind, generates all code for it.
//!
//! Fields are in the order of listings and of attributes. Next to each are its place in the record and what becomes of
//! it in archives ([`declare`]). Words 0 to 2 of every start contain the parent, the context and, in the lower half,
//! the rank.

#![expect(missing_docs, reason = "the fields are NCCL's, see its headers")]

use std::ffi::{CStr, c_char};
use std::fmt;
use std::marker::PhantomData;

use crate::event::declare::events;
use crate::versions::Table;

pub mod declare;

pub use crate::event::declare::{DeclaredField, Field, NetData, Style, Value, Word};

/// Passes the declarations of all kinds to a macro: below to `events`, which generates all code of this package for
/// them, and in the package `timeline` to what writes the attributes of fields.
#[macro_export]
macro_rules! event_kinds {
    ($generate:ident) => {
        $generate! {
            /// A group of operations that are launched together.
            Group = 0 since V1, 3 words {}

            /// A collective, below the API.
            Coll<S> = 1 since V1, 12 words {
                func: S [10 0] "func" => hidden ["the name of its region"],
                sequence: u64 [3 0] "seq" => Sequence,
                /// Number of elements.
                count: u64 [6 0] "count" => Count [by count(count)],
                datatype: S [10 16] "dtype" => Datatype Bytes [by datatype(datatype, count)],
                root: i32 [2 32] "root" => Root [by root(func, root)],
                algorithm: S [10 32] "algo" => Algorithm,
                protocol: S [10 48] "proto" => Protocol,
                channels: u8 [11 16] "channels" => Channels,
                warps: u8 [11 24] "warps" => Warps,
                send_buffer: u64 [4 0] "sendBuff" address => hidden ["an address means nothing after the job"],
                recv_buffer: u64 [5 0] "recvBuff" address => hidden ["an address means nothing after the job"],
                /// Handle of the Group event (the parent itself up to v4).
                parent_group: u64 [7 0] "parentGroup" address => hidden ["the launch plan around its enqueueing"],
                /// v1–v3 only: the communicator's hash; 0 if it is not given.
                comm_hash: u64 [9 0] "commHash" rare => hidden ["the id of its communicator"],
                /// v7 only.
                kernel_variant: S [11 0] "kernelVariant" => KernelVariant,
                /// v7 only.
                is_symmetric: bool [flag] "isSymmetric" rare => Symmetric [unless empty],
                /// v7 only; 0 for none.
                user_tag: u64 [8 0] "userTag" rare => UserTag [unless empty],
            }

            /// A send or receive, below the API.
            P2p<S> = 2 since V1, 9 words {
                func: S [8 0] "func" => hidden ["the name of its region"],
                peer: i32 [2 32] "peer" => Peer,
                /// Number of elements.
                count: u64 [3 0] "count" => Count [by count(count)],
                datatype: S [8 16] "dtype" => Datatype Bytes [by datatype(datatype, count)],
                /// v4+; garbage if v4 runs on NCCL ≥ 2.28, so never use it as a size.
                channels: u8 [8 32] "channels" => Channels [unless empty],
                buffer: u64 [4 0] "buff" address => hidden ["an address means nothing after the job"],
                /// Handle of the Group event (the parent itself up to v4).
                parent_group: u64 [5 0] "parentGroup" address => hidden ["the launch plan around its enqueueing"],
                /// v1–v3 only: the communicator's hash; 0 if it is not given.
                comm_hash: u64 [7 0] "commHash" rare => hidden ["the id of its communicator"],
                /// v7 only; 0 for none.
                user_tag: u64 [6 0] "userTag" rare => UserTag [unless empty],
            }

            /// The proxy's work for one channel and one peer of an operation.
            ProxyOp = 3 since V1, 5 words {
                peer: i32 [3 0] "peer" => Peer,
                channel: u8 [4 32] "channel" => Channel,
                steps: i32 [3 32] "steps" => Steps,
                chunk_bytes: i32 [4 0] "chunkSize" => ChunkBytes,
                is_send: bool [flag] "isSend" => hidden ["the name of its region"],
                pid: i32 [2 32] "eventPid" => OriginPid [by origin_pid],
            }

            /// One transfer of a proxy operation.
            ProxyStep = 4 since V1, 3 words {
                step: i32 [2 32] "step" => Step,
            }

            /// The proxy thread's activity between transfers.
            ProxyCtrl = 5 since V1, 3 words {}

            /// A collective's kernel on one channel.
            KernelCh = 6 since V3, 4 words {
                channel: u8 [2 32] "channel" => Channel,
                /// Time of the GPU's globaltimer; 0 if the release has no GPU time (v3).
                gpu_ns: u64 [3 0] "pTimer" => hidden ["the begin of its region"],
            }

            /// An event of a network plugin.
            NetPlugin = 7 since V3, 8 words {
                id: i64 [3 0] "netId" => PluginId [by plugin_id(id)],
                data: NetData [4 0] "net" => NetDevice QueuePair Opcode WorkRequest Socket Bytes [by net_data(data)],
            }

            /// The interval from `ncclGroupStart` to `ncclGroupEnd`, or a single call outside of a group.
            GroupApi = 8 since V5, 3 words {
                depth: i32 [2 32] "depth" => Depth,
                graph_captured: bool [flag] "graphCaptured" => Captured [unless empty],
            }

            /// A call of a collective.
            CollApi<S> = 9 since V5, 7 words {
                func: S [6 0] "func" => hidden ["the name of its region"],
                /// Number of elements.
                count: u64 [3 0] "count" => Count [by count(count)],
                datatype: S [6 16] "dtype" => Datatype Bytes [by datatype(datatype, count)],
                root: i32 [2 32] "root" => Root [by root(func, root)],
                stream: u64 [4 0] "stream" address => Stream [unless empty],
                graph_captured: bool [flag] "graphCaptured" => Captured [unless empty],
                user_tag: u64 [5 0] "userTag" rare => UserTag [unless empty],
            }

            /// A call of a send or receive.
            P2pApi<S> = 10 since V5, 7 words {
                func: S [6 0] "func" => hidden ["the name of its region"],
                /// Number of elements.
                count: u64 [3 0] "count" => Count [by count(count)],
                datatype: S [6 16] "dtype" => Datatype Bytes [by datatype(datatype, count)],
                stream: u64 [4 0] "stream" address => Stream [unless empty],
                graph_captured: bool [flag] "graphCaptured" => Captured [unless empty],
                user_tag: u64 [5 0] "userTag" rare => UserTag [unless empty],
            }

            /// A launch of a kernel.
            KernelLaunch = 11 since V5, 4 words {
                stream: u64 [3 0] "stream" address => Stream [unless empty],
            }

            /// A collective that uses copy engines.
            CeColl<S> = 12 since V6, 12 words {
                func: S [9 0] "func" => hidden ["the name of its region"],
                sequence: u64 [3 0] "seq" => Sequence,
                ce_sequence: u32 [11 0] "ceSeq" => hidden ["no reader asks for it"],
                /// Number of elements.
                count: u64 [6 0] "count" => Count [by count(count)],
                datatype: S [9 16] "dtype" => Datatype Bytes [by datatype(datatype, count)],
                root: i32 [2 32] "root" => Root [by root(func, root)],
                send_buffer: u64 [4 0] "sendBuff" address => hidden ["an address means nothing after the job"],
                recv_buffer: u64 [5 0] "recvBuff" address => hidden ["an address means nothing after the job"],
                sync_strategy: S [9 32] "syncStrategy" => SyncStrategy,
                stream: u64 [7 0] "stream" address => Stream [unless empty],
                intra_batch_sync: bool [flag] "intraBatchSync" => hidden ["no reader asks for it"],
                batch_size: u32 [10 0] "batchSize" => hidden ["its CeBatch events show it"],
                batches: u32 [10 32] "batches" => hidden ["its CeBatch events show it"],
                user_tag: u64 [8 0] "userTag" rare => UserTag [unless empty],
            }

            /// A synchronisation in a copy-engine collective.
            CeSync = 13 since V6, 3 words {
                complete: bool [flag] "isComplete" => hidden ["no reader asks for it"],
                ranks: i32 [2 32] "nranks" => Ranks [by ranks(ranks)],
            }

            /// A batch of copies in a copy-engine collective.
            CeBatch = 14 since V6, 4 words {
                operations: i32 [2 32] "operations" => Operations,
                bytes: u64 [3 0] "bytes" => Bytes,
                intra_sync: bool [flag] "intraSync" => hidden ["no reader asks for it"],
            }

            /// A phase of a collective's kernel on one channel.
            KernelPhase<S> = 15 since V7, 4 words {
                channel: u8 [2 32] "channel" => hidden ["the location of its region"],
                phase: u8 [2 40] "phase" => Phase,
                name: S [2 48] "phaseName" => hidden ["the name of its region"],
                /// Time of the GPU's globaltimer.
                gpu_ns: u64 [3 0] "pTimer" => hidden ["the begin of its region"],
            }

            /// A type that this version of the plugin does not know: counted, not an error. Any table may contain one.
            Unknown = 16 since V1, 4 words {
                /// The type as NCCL passed it.
                event_type: u64 [3 0] "eventType" => hidden ["such events are counted, not shown"],
            }
        }
    };
}

event_kinds! { events }

// `from_number` uses the number as the index.
const _: () = {
    let mut at = 0;
    while let [kind, ..] = Kind::ALL.as_slice().split_at(at).1 {
        assert!(*kind as usize == at, "kinds are numbered from 0 without gaps, Unknown last");
        at += 1;
    }
};

impl Kind {
    /// The kind with this number.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }

    /// The bit in NCCL's activation mask; zero for [`Kind::Unknown`].
    pub const fn mask(self) -> u32 {
        match self {
            Self::Unknown => 0,
            kind => 1 << kind as u32,
        }
    }
}

impl<S> Body<S> {
    /// The stream of an event that launches work on the GPU.
    #[inline]
    pub const fn stream_of_launch(&self) -> Option<u64> {
        match self {
            Self::KernelLaunch(KernelLaunch { stream }) | Self::CeColl(CeColl { stream, .. }) => Some(*stream),
            _ => None,
        }
    }
}

/// The start of an event. `S` is the type of strings: [`Name`] during recording, a symbol after reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Start<S> {
    /// The handle from `init`, as NCCL passed it back. PXN passes contexts of other processes.
    pub context: u64,
    /// `parentObj`: the parent's handle, 0 if none. PXN passes handles of other processes.
    pub parent: u64,
    /// The descriptor's rank. Wrong (0) for many kinds in many releases, so the context's rank takes precedence.
    pub rank: i32,
    /// The event's kind and fields.
    pub body: Body<S>,
}

/// Receives the record of a start.
pub trait StartSink {
    /// Appends a record of a length known at compile time. Returns false if there was no room.
    fn put<const WORDS: usize>(&mut self, kind: Kind, flag: bool, words: [u64; WORDS]) -> bool;

    /// The number of a string.
    fn name(&mut self, name: Name<'_>) -> u16;
}

impl<S> Start<S> {
    #[inline(always)]
    fn put_head(&self, words: &mut [u64]) {
        Field::put(self.parent, words, 0, 0);
        Field::put(self.context, words, 1, 0);
        Field::put(self.rank, words, 2, 0);
    }

    #[inline(always)]
    fn with_head(words: &[Word], body: Body<S>) -> Option<Self> {
        Some(Self {
            parent: Field::take(words, 0, 0)?,
            context: Field::take(words, 1, 0)?,
            rank: Field::take(words, 2, 0)?,
            body,
        })
    }
}

/// A NUL-terminated string of NCCL (or of this plugin), valid only during the callback. May be absent.
#[derive(Clone, Copy)]
pub struct Name<'a> {
    pointer: *const c_char,
    borrowed: PhantomData<&'a CStr>,
}

impl<'a> Name<'a> {
    /// No string: NCCL passed NULL, or this version of the interface has no string here.
    pub const NONE: Self = Self { pointer: std::ptr::null(), borrowed: PhantomData };

    /// The longest name that is stored; longer names are truncated.
    pub const MAX_BYTES: usize = 255;

    /// Borrows a string of NCCL.
    ///
    /// # Safety
    /// `pointer` is NULL or points to a NUL-terminated string that stays valid and unchanged for `'a`.
    /// The recorder's `abi` upholds this: NCCL's descriptors contain NULL or static strings of libnccl.
    pub const unsafe fn from_ptr(pointer: *const c_char) -> Self {
        Self { pointer, borrowed: PhantomData }
    }

    /// Borrows a string of this plugin.
    pub const fn from_cstr(string: &'a CStr) -> Self {
        Self { pointer: string.as_ptr(), borrowed: PhantomData }
    }

    /// Whether there is no string.
    pub const fn is_none(self) -> bool {
        self.pointer.is_null()
    }

    /// The address of the string: the key of the recorder's cache.
    pub fn address(self) -> usize {
        self.pointer.addr()
    }

    /// The first sixteen bytes in memory, as two little-endian words; bytes behind the NUL do not belong to the string.
    /// `None` without a string, if sixteen bytes could cross the end of the page, or if the processor is not supported.
    ///
    /// Makes the check of a cached string cheap: no search for the NUL, no call.
    #[inline]
    pub fn first_words(self) -> Option<[u64; 2]> {
        const PAGE_BYTES: usize = 4096;
        let pointer = self.pointer;
        if pointer.is_null() || pointer.addr() % PAGE_BYTES > PAGE_BYTES - 16 {
            return None;
        }
        let (first, second): (u64, u64);
        #[cfg(target_arch = "x86_64")]
        // SAFETY: `from_ptr`'s contract makes the string's first byte readable, and so its page, which contains all
        // sixteen bytes. Uses assembly, because the bytes behind the NUL need not belong to the string's object.
        unsafe {
            std::arch::asm!(
                "mov {first}, qword ptr [{pointer}]",
                "mov {second}, qword ptr [{pointer} + 8]",
                pointer = in(reg) pointer,
                first = out(reg) first,
                second = lateout(reg) second,
                options(nostack, readonly, preserves_flags),
            );
        }
        #[cfg(all(target_arch = "aarch64", target_endian = "little"))]
        // SAFETY: as for x86-64.
        unsafe {
            std::arch::asm!(
                "ldp {first}, {second}, [{pointer}]",
                pointer = in(reg) pointer,
                first = out(reg) first,
                second = lateout(reg) second,
                options(nostack, readonly, preserves_flags),
            );
        }
        #[cfg(not(any(target_arch = "x86_64", all(target_arch = "aarch64", target_endian = "little"))))]
        {
            (first, second) = (0, 0);
            return None;
        }
        #[cfg(any(target_arch = "x86_64", all(target_arch = "aarch64", target_endian = "little")))]
        Some([first, second])
    }

    /// The bytes without the NUL, truncated to [`Self::MAX_BYTES`]; empty if there is no string.
    pub fn bytes(self) -> &'a [u8] {
        if self.pointer.is_null() {
            return &[];
        }
        // SAFETY: not NULL, so `from_ptr`'s contract (or `from_cstr`'s CStr) guarantees a string for 'a.
        let string = unsafe { CStr::from_ptr(self.pointer) };
        let bytes = string.to_bytes();
        bytes.get(..Self::MAX_BYTES).unwrap_or(bytes)
    }
}

impl Default for Name<'_> {
    fn default() -> Self {
        Self::NONE
    }
}

impl fmt::Debug for Name<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:?}", String::from_utf8_lossy(self.bytes()))
    }
}

const fn both(low: i32, high: i32) -> u64 {
    low.cast_unsigned() as u64 | (high.cast_unsigned() as u64) << 32
}

/// Four words of a record: the layout's number and a number, two numbers, a number, bytes.
impl Field for NetData {
    #[inline(always)]
    fn put(self, words: &mut [u64], at: usize, _shift: u32) {
        let values = match self {
            Self::Opaque => [0; 4],
            Self::IbQueuePair { device, work_request, opcode, queue_pair, bytes } => {
                [both(1, device), both(opcode, queue_pair), work_request, bytes]
            }
            Self::Socket { descriptor, operation, bytes } => [both(2, descriptor), both(operation, 0), 0, bytes],
        };
        if let Some(words) = words.get_mut(at..at + 4) {
            words.copy_from_slice(&values);
        }
    }

    #[inline(always)]
    fn take(words: &[Word], at: usize, _shift: u32) -> Option<Self> {
        let signed = |word: usize, shift: u32| i32::take(words, at + word, shift);
        Some(match u32::take(words, at, 0)? {
            0 => Self::Opaque,
            1 => Self::IbQueuePair {
                device: signed(0, 32)?,
                opcode: signed(1, 0)?,
                queue_pair: signed(1, 32)?,
                work_request: u64::take(words, at + 2, 0)?,
                bytes: u64::take(words, at + 3, 0)?,
            },
            2 => Self::Socket {
                descriptor: signed(0, 32)?,
                operation: signed(1, 0)?,
                bytes: u64::take(words, at + 3, 0)?,
            },
            _ => return None,
        })
    }
}

/// Whether NCCL reports events of this kind to a plugin that it calls through this table.
pub const fn has(table: Table, kind: Kind) -> bool {
    table.number() >= kind.since().number()
}

/// The kinds in a table, as NCCL's mask.
pub const fn kinds(table: Table) -> u32 {
    let (mut mask, mut rest) = (0, Kind::ALL.as_slice());
    while let [kind, others @ ..] = rest {
        if has(table, *kind) {
            mask |= kind.mask();
        }
        rest = others;
    }
    mask
}
