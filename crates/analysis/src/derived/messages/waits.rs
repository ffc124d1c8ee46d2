//! Until when a send or receive waits for its other end.

use super::pairing::Pairing;
use crate::tables::Tables;
use nccl_events::ids::index as large;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::derived) enum Until {
    Never,
    /// Until the other end arrived.
    Other(u64),
    /// Unknown until this time; `u64::MAX` if the other end was not found.
    Unclear(u64),
}

impl Until {
    /// For a send or receive. `is_alone`: no other operation shares its kernel.
    pub(in crate::derived) fn of(tables: &Tables, pairing: &Pairing, row: u32, is_alone: bool) -> Self {
        let operations = &tables.operations;
        let it = operations.row(large(row));
        if tables.members.row(it.member).rank == it.partner {
            return Self::Never;
        }
        let other = pairing.other(row).filter(|other| operations.row(large(*other)).is_known());
        let known = other.and_then(|other| Some((operations.start_ns[large(other)], tables.error_ns(row, other)?)));
        let Some((other_ns, error_ns)) = known else {
            return Self::Unclear(u64::MAX);
        };
        let is_send = pairing.is_send(row);
        if other_ns <= it.start_ns {
            Self::Never
        } else if it.stop_ns.saturating_add(error_ns) < other_ns {
            // A send may end early, into a buffer; a receive cannot end before its sender has come.
            if is_send { Self::Never } else { Self::Unclear(u64::MAX) }
        } else if other_ns - it.start_ns <= error_ns {
            Self::Unclear(other_ns)
        } else if is_send && (!is_alone || it.stop_ns <= other_ns.saturating_add(error_ns)) {
            // May have gone into a buffer: another operation of its kernel ended later, or the clocks cannot tell.
            Self::Unclear(other_ns)
        } else {
            Self::Other(other_ns)
        }
    }
}
