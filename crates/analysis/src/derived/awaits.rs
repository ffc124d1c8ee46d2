//! Whom an operation waited for.

use super::Analysis;
use super::arrivals::Split;
use super::messages::Until;
use nccl_events::ids::index as large;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Awaits {
    Nobody,
    /// Another rank's operation, by its row, until it began.
    Other {
        row: u32,
        until_ns: u64,
    },
    /// Unknown until this time; `u64::MAX` if the operation cannot be compared with those of other ranks.
    Unclear {
        until_ns: u64,
    },
}

impl Analysis {
    /// Whom an operation waited for. `is_alone`: no other operation shares its kernel.
    pub fn awaits(&self, row: u32, is_alone: bool) -> Awaits {
        let (tables, operation) = (&self.tables, self.tables.operations.row(large(row)));
        let unknown = Awaits::Unclear { until_ns: u64::MAX };
        if !operation.is_known() {
            return unknown;
        }
        if let Some(number) = self.instances.of_operation(row) {
            let instance = &self.instances.all[large(number)];
            return match instance.split(tables, row) {
                Split::Waits(until_ns) if until_ns <= operation.start_ns => Awaits::Nobody,
                Split::Waits(until_ns) => Awaits::Other { row: instance.awaited, until_ns },
                Split::Unclear(until_ns) => Awaits::Unclear { until_ns },
            };
        }
        if !self.pairing.is_message(row) {
            let is_single = tables.members.size(tables.members.row(operation.member).communicator) == 1;
            return if is_single { Awaits::Nobody } else { unknown };
        }
        match Until::of(tables, &self.pairing, row, is_alone) {
            Until::Other(until_ns) => self.pairing.other(row).map_or(unknown, |row| Awaits::Other { row, until_ns }),
            Until::Never => Awaits::Nobody,
            Until::Unclear(until_ns) => Awaits::Unclear { until_ns },
        }
    }

    /// The operations of other ranks that belong to an operation: of its collective, or the other end of its message.
    pub fn others(&self, row: u32) -> Vec<u32> {
        let instance = self.instances.of_operation(row).map(|number| &self.instances.all[large(number)]);
        let rows = instance.into_iter().flat_map(|instance| self.instances.operations(instance)).copied();
        rows.filter(|other| *other != row).chain(self.pairing.other(row)).collect()
    }
}
