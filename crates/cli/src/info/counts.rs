//! What `info` says instead of the names of counters that belong to no kind of event. `docs/REFERENCE.md` §7 has them
//! in full.

/// By the counter's name in JSON.
const WORDS: &[(&str, &str)] = &[
    ("started", "events that began"),
    ("stops_without_start", "stops of events whose start is not in the journal"),
    ("states_without_start", "states of events whose start is not in the journal"),
    ("removed", "starts that the flight recording removed, as intended"),
    ("stops_of_removed", "stops of events whose start was removed"),
    ("states_of_removed", "states of events whose start was removed"),
    ("stops_repeated", "stops of events that had already stopped"),
    ("states_repeated", "states that an event had already entered"),
    ("states_unknown", "states that no known release has"),
    ("stops_lost", "stops that could not be recorded"),
    ("states_lost", "states that could not be recorded"),
    ("communicators_lost", "beginnings and ends of communicators that could not be recorded"),
    ("controls_counted_only", "proxy control events of which only the number was recorded"),
    ("waits_counted_only", "repeated waiting states of which only the number was recorded"),
    ("stops_late", "stops after the end of recording"),
    ("states_late", "states after the end of recording"),
    ("stalls", "times that a recording thread had to prepare space itself"),
    ("finalizes_without_init", "communicators that ended and whose beginning is not in the journal"),
    ("contexts_twice", "ids of communicators that were used twice"),
    ("clamped", "calls cut at the end of the call around them"),
    ("starts_cut", "operations, kernels and ranges shown from where another ends that they overlap"),
    ("enqueued_together", "operations enqueued together, which share one measured time"),
    ("starts_moved", "operations shown from the end of the kernel before them"),
    ("closed", "ends that NCCL did not report and that were inferred"),
    ("gpu_times_suspicious", "kernel channels and phases with implausible GPU times"),
    ("gpu_times_zero", "GPU times that are 0"),
    ("gpu_times_impossible", "GPU times of 2^63 ns or more"),
    ("gpu_times_backwards", "GPU times whose stop is before the start"),
    ("gpu_times_repeated", "GPU times that a later kernel also has"),
    ("gpu_times_out_of_order", "GPU times that are not in launch order"),
    ("gpu_times_outside", "GPU times outside their channel, or inside another phase"),
    ("foreign", "operations for communicators of other processes (PXN)"),
    ("uninitialised", "operations of communicators whose beginning could not be recorded"),
    ("collectives_unknown", "collectives without a name in OTF2"),
    ("sizes_unknown", "collectives of communicators whose size is not known"),
    ("messages_without_peer", "sends, receives and steps whose peer is not in the communicator"),
    ("ranges_user", "ranges of the program"),
    ("ranges_marks", "marks of the program"),
    ("ranges_nccl", "calls that only an NVTX range of NCCL shows"),
    ("ranges_reported", "NVTX ranges of calls that NCCL also reports, shown once"),
    ("ranges_unfinished", "ranges that were open when recording ended"),
    ("ranges_closed", "ranges whose end was not recorded and was inferred"),
    ("ranges_other_names", "ranges and marks without their names, because there were too many"),
    ("ranges_too_deep", "ranges nested too deeply, which were not recorded"),
    ("ranges_unbalanced_pops", "ends of ranges that had not begun"),
    ("ranges_lost", "beginnings, ends and marks of ranges that could not be recorded"),
];

/// Counters that are no losses: every sound recording has them, and only `--json` shows them.
pub(super) const EXPECTED: [&str; 5] = ["started", "ranges_user", "ranges_marks", "ranges_nccl", "ranges_reported"];

/// What a counter counts; its name if that is not known here.
pub(super) fn words(name: &str) -> &str {
    WORDS.iter().find(|(known, _)| *known == name).map_or(name, |(_, words)| words)
}

#[cfg(test)]
mod tests {
    use nccl_events::schema::Others;

    use super::*;

    #[test]
    fn every_counter_has_words() {
        let names = Others::default().named().map(|(name, _)| name.to_ascii_lowercase());
        let unnamed: Vec<String> = names.filter(|name| words(name) == name).collect();
        assert!(unnamed.is_empty(), "{unnamed:?}");
    }
}
