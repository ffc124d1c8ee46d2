//! Counts what a journal lacks, as [`Counts`].

use journal::part::LateCallbacks;
use journal::reader::Losses;
use nccl_events::Kind;
use nccl_events::schema::Counts;

/// Adds what the recorder could not record.
pub(crate) fn add_losses(counts: &mut Counts, losses: &Losses) {
    let by_kind = losses.starts.iter().zip(&losses.stops).zip(&losses.states);
    for (kind, ((starts, stops), states)) in Kind::ALL.into_iter().zip(by_kind) {
        let of_kind = counts.kind_mut(kind);
        of_kind.lost += starts;
        of_kind.stops_lost += stops;
        of_kind.states_lost += states;
        counts.stops_lost += stops;
        counts.states_lost += states;
    }
    counts.communicators_lost += losses.communicators;
    counts.stalls += losses.stalls;
    counts.states_repeated += losses.repeated_waits;
    counts.waits_counted_only += losses.repeated_waits;
    counts.controls_counted_only += losses.empty_controls;
    if losses.empty_controls > 0 {
        let controls = counts.kind_mut(Kind::ProxyCtrl);
        controls.seen += losses.empty_controls;
        controls.not_shown += losses.empty_controls;
    }
}

/// Adds events that came although they were not selected.
pub(crate) fn add_not_selected(counts: &mut Counts, starts: &[u64; Kind::COUNT]) {
    for (kind, starts) in Kind::ALL.into_iter().zip(starts) {
        counts.kind_mut(kind).not_selected += starts;
    }
}

/// Adds callbacks and communicators that came after recording had ended.
pub fn add_late(counts: &mut Counts, late: &LateCallbacks) {
    for kind in Kind::ALL {
        if let Some(starts) = late.starts.get(kind.name()) {
            let sum = &mut counts.kind_mut(kind).late;
            *sum = sum.saturating_add(*starts);
        }
    }
    counts.stops_late = counts.stops_late.saturating_add(late.stops);
    counts.states_late = counts.states_late.saturating_add(late.states);
    counts.communicators_lost = counts.communicators_lost.saturating_add(late.communicators);
}
