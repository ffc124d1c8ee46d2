//! Batches of works, as the host lays them out.

use crate::device_memory::Record;
use crate::layout::{Layout, bcast, p2p};

/// `ncclDevWorkType`
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Kind {
    P2p,
    Coll,
    CollReg,
    Bcast,
}

pub(super) struct Batch {
    /// index of the next batch of the same block
    pub(super) next: Option<usize>,
    pub(super) func: i32,
    pub(super) kind: Kind,
    pub(super) works: Vec<Record>,
    /// how far the work ring has been read with this batch
    pub(super) consumed: u32,
}

const FIRST_BATCH: usize = 32;
const BATCH_LEN: usize = 16;
/// Works lie in the argument block itself where the storage is 0, else in a ring.
const STORAGE: usize = 16;
const RING_MASK: usize = 20;
const RING: usize = 24;

impl Batch {
    /// Reads the batch at this index together with those that extend it.
    pub(super) fn load(layout: &Layout, args: &Record, mut index: usize) -> Batch {
        let in_args = args.get::<u8>(STORAGE) == 0;
        let mask: u32 = args.get(RING_MASK);
        let ring = args.addr(RING);
        let mut works = Vec::new();
        loop {
            let at = FIRST_BATCH + BATCH_LEN * index;
            let (flags, base, bits): (u32, u32, u64) = (args.get(at), args.get(at + 4), args.get(at + 8));
            let jump = (flags & 0x3fff) as usize;
            let extends = flags >> 14 & 1 == 1;
            let (kind, size) = match flags >> 15 & 3 {
                0 => (Kind::P2p, p2p::SIZE),
                1 => (Kind::Coll, layout.coll_size),
                2 => (Kind::CollReg, layout.collreg_size),
                _ => (Kind::Bcast, bcast::SIZE),
            };
            for i in (0..64).filter(|i| bits >> i & 1 == 1) {
                let offset = base.wrapping_add(i * size as u32);
                let mut work = Vec::with_capacity(size);
                // The ring may wrap around in the middle of a work, at a multiple of 16.
                for word in (0..size as u32).step_by(16).map(|k| offset.wrapping_add(k)) {
                    if in_args {
                        work.extend_from_slice(args.slice(word as usize, 16));
                    } else {
                        work.extend_from_slice(&ring.field((word & mask) as usize).bytes(16));
                    }
                }
                works.push(Record::from_bytes(work));
            }
            if extends {
                index += jump;
                continue;
            }
            return Batch {
                next: (jump != 0).then_some(index + jump),
                func: (flags >> 17 & layout.func_mask) as i32,
                kind,
                works,
                consumed: base.wrapping_add((64 - bits.leading_zeros()) * size as u32),
            };
        }
    }
}
