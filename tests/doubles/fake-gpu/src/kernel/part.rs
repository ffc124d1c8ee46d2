//! The part of a collective that one channel does.

use super::function_table::Func;
use crate::device_memory::Record;
use crate::prims::Env;

/// A part, in elements.
pub(super) struct Part {
    /// of all channels together
    pub(super) count: i64,
    pub(super) offset: i64,
    pub(super) len: i64,
    pub(super) chunk: i64,
}

impl Part {
    /// The works say how much the first, the last and each channel between them do ("continuous byte
    /// distribution"), with chunk sizes in grains of the protocol, 21 bits each.
    pub(super) fn of(env: &Env<'_>, work: &Record, func: Func) -> Part {
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
            (
                count_first + (own - first - 1) * count_between,
                count_between,
                chunk(1),
            )
        };
        Part {
            count,
            offset,
            len,
            chunk,
        }
    }

    /// The chunks one after the other: where each starts in the data, and its length.
    pub(super) fn chunks(&self) -> impl Iterator<Item = (i64, i64)> + use<> {
        let (offset, len, chunk) = (self.offset, self.len, self.chunk);
        (0..)
            .map(move |i| i * chunk)
            .take_while(move |&at| at < len)
            .map(move |at| (offset + at, chunk.min(len - at)))
    }
}
