//! One beginning for the journals of several processes, and hosts.

use std::collections::BTreeMap;

use super::story::Story;

/// Sets the beginning of all journals to that of the first, each on its own clock. Processes of a boot share a clock;
/// between hosts the system's clocks are believed, as in archives.
pub(crate) fn share(stories: &mut [Story]) {
    // By boot: CLOCK_REALTIME - CLOCK_MONOTONIC of its first journal.
    let mut offsets: BTreeMap<String, (u64, i64)> = BTreeMap::new();
    for story in stories.iter() {
        let found = (story.begin_ns, story.realtime_offset_ns);
        let first = offsets.entry(story.boot_id.clone()).or_insert(found);
        *first = (*first).min(found);
    }
    let offset = |story: &Story| offsets.get(&story.boot_id).map_or(0, |(_, offset)| *offset);
    let begins = stories
        .iter()
        .map(|story| story.begin_ns.saturating_add_signed(offset(story)));
    let Some(begin) = begins.min() else { return };
    for story in stories {
        story.begin_ns = begin.saturating_sub_signed(offset(story));
    }
}
