//! The kinds of events in each version of the interface, from the first version of each kind.

use super::Kind;
use crate::table::Table;

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
