//! Until when a send or receive waits for its other end.

use super::pairing::Pairing;
use crate::derived::instances::error_ns;
use crate::tables::{Tables, large};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Until {
    Never,
    /// Until its other end has come.
    Other(u64),
    /// Unknown until this time; `u64::MAX` where the other end was not found.
    Unclear(u64),
}

impl Until {
    /// Of a send or receive. `is_alone` says whether it has its kernel for itself.
    pub(super) fn of(tables: &Tables, pairing: &Pairing, row: u32, is_alone: bool) -> Self {
        let operations = &tables.operations;
        let it = operations.row(large(row));
        if tables.members.row(it.member).rank == it.partner {
            return Self::Never;
        }
        let other = pairing.other(row).filter(|other| operations.row(large(*other)).is_known());
        let known = other.and_then(|other| Some((operations.start_ns[large(other)], error_ns(tables, row, other)?)));
        let Some((other_ns, error_ns)) = known else {
            return Self::Unclear(u64::MAX);
        };
        let is_send = pairing.is_send(row);
        if other_ns <= it.start_ns {
            Self::Never
        } else if it.stop_ns.saturating_add(error_ns) < other_ns {
            // A send into a buffer; a receive cannot end before its sender has come.
            if is_send { Self::Never } else { Self::Unclear(u64::MAX) }
        } else if other_ns - it.start_ns <= error_ns {
            Self::Unclear(other_ns)
        } else if is_send && (!is_alone || it.stop_ns <= other_ns.saturating_add(error_ns)) {
            // It may have gone into a buffer: what it shares its kernel with ended later, or the clocks do not tell.
            Self::Unclear(other_ns)
        } else {
            Self::Other(other_ns)
        }
    }
}
