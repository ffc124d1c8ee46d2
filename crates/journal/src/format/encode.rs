//! Encodes records as words: the inverse of [`crate::format::decode`], on the recording side. Straight code, no
//! allocation. Payload words are counted from the end of the record header.

use crate::format::layout::{flag, kind, pair};
use nccl_events::event::{Field as _, StartSink};
use nccl_events::{Kind, Name, Start, StateArgs};

/// The number of a string in its slot.
pub(crate) type NameNumber = u16;

/// Takes payloads: the recording thread's slot writer. Each call appends one record of a length known at compile time.
pub(crate) trait Sink {
    /// Appends a record. Returns false if there was no room.
    fn put<const WORDS: usize>(&mut self, kind: u8, flags: u8, id: u64, payload: [u64; WORDS]) -> bool;
    /// The number of a string in this slot. The first use of a string records it.
    fn name(&mut self, name: Name<'_>) -> NameNumber;
}

#[inline]
const fn both(low: i32, high: i32) -> u64 {
    pair(low.cast_unsigned(), high.cast_unsigned())
}

#[inline]
pub(crate) const fn flags(truth: bool) -> u8 {
    if truth { flag::TRUE } else { 0 }
}

#[inline]
pub(crate) fn start(sink: &mut impl Sink, id: u64, event: &Start<Name<'_>>) -> bool {
    event.encode(&mut Starts { sink, id })
}

struct Starts<'a, K> {
    sink: &'a mut K,
    id: u64,
}

impl<K: Sink> StartSink for Starts<'_, K> {
    #[inline(always)]
    fn put<const WORDS: usize>(&mut self, kind: Kind, flag: bool, words: [u64; WORDS]) -> bool {
        self.sink.put(kind::START + kind as u8, flags(flag), self.id, words)
    }

    #[inline(always)]
    fn name(&mut self, name: Name<'_>) -> NameNumber {
        self.sink.name(name)
    }
}

#[inline]
pub(crate) fn state(sink: &mut impl Sink, event: &nccl_events::State) -> bool {
    let word = |which: u32| pair(event.state, which);
    match event.args {
        StateArgs::None => sink.put(kind::STATE, 0, event.event, [word(0)]),
        StateArgs::ProxyOp { bytes, steps } => sink.put(kind::STATE, 0, event.event, [word(1), bytes, both(steps, 0)]),
        StateArgs::ProxyStep { bytes } => sink.put(kind::STATE, 0, event.event, [word(2), bytes]),
        StateArgs::ProxyCtrl { appended } => sink.put(kind::STATE, 0, event.event, [word(3), both(appended, 0)]),
        StateArgs::GpuTime { gpu_ns } => sink.put(kind::STATE, 0, event.event, [word(4), gpu_ns]),
        StateArgs::NetPlugin { data } => {
            let mut words = [word(5), 0, 0, 0, 0];
            data.put(&mut words, 1, 0);
            sink.put(kind::STATE, 0, event.event, words)
        }
    }
}
