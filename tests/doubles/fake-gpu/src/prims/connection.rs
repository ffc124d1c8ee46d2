//! One side of a connection.

use super::env::{Env, Proto, STEPS};
use crate::device_memory::Addr;
use crate::layout::{Layout, conn};

pub(super) struct Connection {
    /// `ncclConnInfo`
    info: Addr,
    pub(super) step: u64,
    buffer: Addr,
    step_bytes: usize,
    fifo: Addr,
    /// counter of the other side
    pub(super) theirs: Addr,
    /// counter that this side advances
    ours: Addr,
}

/// A slot of the fifo holds the place of the data.
const MODE_OFFSET: i32 = 1;

impl Connection {
    /// `multiple`: operations begin at a multiple of so many steps.
    pub(super) fn open(
        env: &Env<'_>,
        proto: Proto,
        rank: i32,
        index: usize,
        sending: bool,
        multiple: u64,
    ) -> Connection {
        let peer_address = env.peer(rank).field(if sending { 0 } else { conn::RECV_IN_PEER });
        let info = peer_address.field(index * conn::SIZE);
        let (head, tail) = (info.field(conn::HEAD).follow(), info.field(conn::TAIL).follow());
        let step_bytes = match proto {
            Proto::Simple => info.field(conn::STEP_SIZE).read::<i32>() as usize,
            Proto::Ll | Proto::Ll128 => env.step_bytes(proto),
        };
        let connection = Connection {
            info,
            step: info.field(conn::STEP).read::<u64>().next_multiple_of(multiple),
            buffer: info.field(conn::BUFFS + 8 * proto.index()).follow(),
            step_bytes,
            fifo: info.field(conn::CONN_FIFO).follow(),
            theirs: if sending { head } else { tail },
            ours: if sending { tail } else { head },
        };
        if !sending && proto == Proto::Simple {
            // Give back what rounding up skipped.
            connection.ours.store(connection.step);
        }
        connection
    }

    pub(super) fn close(&self) {
        self.info.field(conn::STEP).store(self.step);
    }

    fn fifo_slot(&self, layout: &Layout) -> Option<Addr> {
        let slot = (self.step % STEPS) as usize * layout.fifo_stride;
        (!self.fifo.is_null()).then(|| self.fifo.field(slot))
    }

    /// Tells the proxy how many bytes the current step has.
    pub(super) fn set_size(&self, layout: &Layout, bytes: usize) {
        if let Some(slot) = self.fifo_slot(layout) {
            slot.field(layout.fifo_size).store(bytes as u64);
        }
    }

    pub(super) fn data(&self, layout: &Layout, proto: Proto) -> Addr {
        if proto == Proto::Simple
            && let Some(slot) = self.fifo_slot(layout)
            && slot.read::<i32>() == MODE_OFFSET
        {
            let offset = slot.field(layout.fifo_offset);
            return self.buffer.at(if layout.fifo_offset_64 {
                offset.read::<i64>() as isize
            } else {
                offset.read::<i32>() as isize
            });
        }
        self.buffer.field((self.step % STEPS) as usize * self.step_bytes)
    }

    pub(super) fn advance(&mut self, steps: u64) {
        self.step += steps;
        self.ours.store(self.step);
    }

    /// Advances without telling anyone: the data carries the number.
    pub(super) fn advance_silently(&mut self) {
        self.step += 1;
    }

    /// Advances by one step, and stores it where the other side has a counter.
    pub(super) fn advance_if_counted(&mut self) {
        self.step += 1;
        if !self.ours.is_null() {
            self.ours.store(self.step);
        }
    }
}
