//! Recording that was switched while the job ran: MeasurementOnOff on the rows of threads and communicators.

use std::collections::BTreeMap;

use crate::timeline::events::{EventBody, TimelineEvent};
use crate::timeline::location::LocationKey;
use tables::Tables;

/// The switches that a row shows, in order.
#[must_use]
pub(crate) fn of_row(key: LocationKey, sibling: u32, tables: &Tables) -> Vec<TimelineEvent> {
    let shows = sibling == 0 && matches!(key, LocationKey::Thread(_) | LocationKey::Communicator(_));
    if !shows || tables.switches.is_empty() {
        return Vec::new();
    }
    let turns = turns(key, tables).into_iter();
    let turns = turns.map(|(time, is_on)| TimelineEvent { time, body: EventBody::Measurement(is_on) });
    turns.collect()
}

/// When recording went on or off for a row.
fn turns(key: LocationKey, tables: &Tables) -> Vec<(u64, bool)> {
    let ranks = ranks_of(key, tables);
    let mut is_on = true;
    let mut wanted = true;
    let mut open: BTreeMap<u64, bool> = BTreeMap::new();
    let mut turns = Vec::new();
    for at in &tables.switches {
        match at.turn() {
            None => wanted = at.switch.after.is_on,
            Some(turn) if at.context == 0 => {
                if turn.range.is_none() {
                    open.clear();
                }
            }
            Some(_) => {
                if ranks.is_empty() || ranks.contains(&at.context) {
                    open.insert(at.context, at.switch.after.is_on);
                }
            }
        }
        let now = wanted && (open.is_empty() || open.values().any(|&is_open| is_open));
        if now != is_on {
            is_on = now;
            turns.push((at.time, now));
        }
    }
    turns
}

/// The contexts whose ranges count for a row: of a communicator its own, of a thread those that turned while it
/// called. Without any, what is not in a communicator that is counted, all do.
fn ranks_of(key: LocationKey, tables: &Tables) -> Vec<u64> {
    let ranges = tables.switches.iter().filter(|at| at.context != 0);
    let of_row = ranges.filter(|at| match key {
        LocationKey::Communicator(context) => tables.find_context(at.context) == Some(context),
        // The one that made a communicator need not be the one that calls.
        LocationKey::Thread(thread) => {
            let is_call = at.turn().is_some_and(|turn| turn.started > 0);
            is_call && tables.first_place_of_thread(at.thread) == thread
        }
        _ => false,
    });
    of_row.map(|at| at.context).collect()
}
