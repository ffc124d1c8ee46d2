//! What all parts of one block share, and the wire protocols.

use crate::device_memory::Addr;
use crate::layout::{Layout, comm};

pub(super) const STEPS: u64 = 8;

#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Proto {
    Ll,
    Ll128,
    Simple,
}

impl Proto {
    pub(super) fn index(self) -> usize {
        self as usize
    }

    /// Bytes of a grain, the unit in which chunk sizes are given.
    pub(crate) fn grain(self) -> usize {
        match self {
            Proto::Ll => 16,
            Proto::Ll128 => 1920,
            Proto::Simple => 512,
        }
    }
}

pub(crate) struct Env<'a> {
    pub(crate) layout: &'a Layout,
    /// `ncclKernelComm`
    pub(crate) comm: Addr,
    /// `ncclDevChannel`
    pub(crate) channel: Addr,
    pub(crate) channel_id: usize,
}

impl Env<'_> {
    pub(crate) fn rank(&self) -> i32 {
        self.comm.field(comm::RANK).read()
    }

    pub(crate) fn n_ranks(&self) -> usize {
        self.comm.field(comm::N_RANKS).read::<i32>() as usize
    }

    /// Bytes of a step in the buffers of a protocol.
    pub(crate) fn step_bytes(&self, proto: Proto) -> usize {
        let buffer = self.comm.field(comm::BUFF_SIZES + 4 * proto.index());
        buffer.read::<i32>() as usize / STEPS as usize
    }

    pub(crate) fn aborted(&self) -> bool {
        let flag = self.comm.field(self.layout.abort_flag).follow();
        !flag.is_null() && flag.load_u32() != 0
    }

    /// `ncclDevChannelPeer` of a rank
    pub(super) fn peer(&self, rank: i32) -> Addr {
        self.channel.follow().field(8 * rank as usize).follow()
    }
}
