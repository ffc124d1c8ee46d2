//! One beginning for the journals of several processes, and hosts.

use std::collections::BTreeMap;

use super::recording::Recording;

/// Sets the beginning of all journals to that of the first, each on its own clock. Processes of a boot share a clock;
/// between hosts the system clocks are not corrected, as in archives.
pub(crate) fn share(recordings: &mut [Recording]) {
    // By boot: CLOCK_REALTIME - CLOCK_MONOTONIC of its first journal.
    let mut offsets: BTreeMap<String, (u64, i64)> = BTreeMap::new();
    for recording in recordings.iter() {
        let found = (recording.begin_ns, recording.realtime_offset_ns);
        let first = offsets.entry(recording.boot_id.clone()).or_insert(found);
        *first = (*first).min(found);
    }
    let offset = |recording: &Recording| offsets.get(&recording.boot_id).map_or(0, |(_, offset)| *offset);
    let begins = recordings.iter().map(|recording| recording.begin_ns.saturating_add_signed(offset(recording)));
    let Some(begin) = begins.min() else { return };
    for recording in recordings {
        recording.begin_ns = begin.saturating_sub_signed(offset(recording));
    }
}
