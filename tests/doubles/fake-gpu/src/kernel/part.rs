//! The part of a collective that one channel does, and how it does it.

use super::function_table::{ALGO_TREE, Coll, Func};
use crate::device_memory::Record;
use crate::prims::{Env, Math, Proto, Shape};

pub(super) struct Part {
    pub(super) count: i64,
    pub(super) offset: i64,
    pub(super) len: i64,
    pub(super) chunk: i64,
}

impl Part {
    /// The works say how much the first, the last and each channel between them do ("continuous byte
    /// distribution"), with chunk sizes in grains of the protocol, 21 bits each.
    pub(super) fn new(env: &Env<'_>, work: &Record, func: Func) -> Part {
        let (first, last) = (i64::from(work.get::<u8>(0)), i64::from(work.get::<u8>(1)));
        let cbd = env.layout.coll_cbd;
        let (count_first, count_between, count_last): (i64, i64, i64) =
            (work.get(cbd), work.get(cbd + 8), work.get(cbd + 16));
        let grains: u64 = work.get(cbd + 24);
        let grain_len = (func.proto.grain() / func.ty.size()) as i64;
        let chunk = |which: u32| (grains >> (21 * which) & 0x1f_ffff) as i64 * grain_len;
        let between = last - first - 1;
        let count = count_first + count_between * between + count_last;
        let own = env.channel_id as i64;
        let (offset, len, chunk) = if own == first {
            (0, count_first, chunk(0))
        } else if own == last {
            (count_first + between * count_between, count_last, chunk(2))
        } else {
            (count_first + (own - first - 1) * count_between, count_between, chunk(1))
        };
        Part { count, offset, len, chunk }
    }

    pub(super) fn chunks(&self) -> impl Iterator<Item = (i64, i64)> + use<> {
        let (offset, len, chunk) = (self.offset, self.len, self.chunk);
        (0..).map(move |i| i * chunk).take_while(move |&at| at < len).map(move |at| (offset + at, chunk.min(len - at)))
    }
}

pub(super) fn shape(func: Func) -> Shape {
    let (slices, steps) = match func.coll {
        Coll::AllReduce if func.algo == ALGO_TREE => (1, 1),
        Coll::AllReduce | Coll::AllGather | Coll::ReduceScatter => (2, 2),
        _ => (1, 1),
    };
    Shape { proto: func.proto, slices, steps }
}

pub(super) fn math(env: &Env<'_>, work: &Record, func: Func) -> Math {
    Math { ty: func.ty, op: func.op, arg: work.get(env.layout.coll_redop) }
}

pub(super) fn neighbours(env: &Env<'_>) -> (i32, i32) {
    (env.channel.field(8).read(), env.channel.field(12).read())
}

pub(super) fn simple_step_bytes(env: &Env<'_>) -> usize {
    env.step_bytes(Proto::Simple)
}
