//! One beginning for the journals of several processes, and hosts.

use std::collections::BTreeMap;

use super::process::Process;

/// Sets the beginning of all journals to that of the first, each on its own clock. Processes of a boot share a clock;
/// between hosts the system clocks are not corrected, as in archives.
pub(crate) fn share(processes: &mut [Process]) {
    // By boot: CLOCK_REALTIME - CLOCK_MONOTONIC of its first journal.
    let mut offsets: BTreeMap<String, (u64, i64)> = BTreeMap::new();
    for process in processes.iter() {
        let found = (process.begin_ns, process.realtime_offset_ns);
        let first = offsets.entry(process.boot_id.clone()).or_insert(found);
        *first = (*first).min(found);
    }
    let offset = |process: &Process| offsets.get(&process.boot_id).map_or(0, |(_, offset)| *offset);
    let begins = processes.iter().map(|process| process.begin_ns.saturating_add_signed(offset(process)));
    let Some(begin) = begins.min() else { return };
    for process in processes {
        process.begin_ns = begin.saturating_sub_signed(offset(process));
    }
}
