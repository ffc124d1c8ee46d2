//! Where recording was switched during the job: MeasurementOnOff on the rows of threads and communicators.

use std::collections::BTreeMap;

use crate::builder::LocationKey;
use crate::messages::{EventBody, TimelineEvent};
use model::tables::Tables;

/// The switches that a location shows, in order.
pub fn for_location(key: LocationKey, tables: &Tables) -> Vec<TimelineEvent> {
    let shows = matches!(key, LocationKey::Thread(_) | LocationKey::Communicator(_));
    if !shows || tables.switches.is_empty() {
        return Vec::new();
    }
    let changes = changes(key, tables).into_iter();
    changes.map(|(time, is_on)| TimelineEvent { time, body: EventBody::Measurement(is_on) }).collect()
}

fn changes(key: LocationKey, tables: &Tables) -> Vec<(u64, bool)> {
    let ranks = ranks_of(key, tables);
    let mut is_on = true;
    let mut wanted = true;
    let mut open: BTreeMap<u64, bool> = BTreeMap::new();
    let mut changes = Vec::new();
    for at in &tables.switches {
        match at.step_switch() {
            None => wanted = at.switch.after.is_on,
            Some(step_switch) if at.context == 0 => {
                if step_switch.range.is_none() {
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
            changes.push((at.time, now));
        }
    }
    changes
}

/// The contexts whose step ranges apply to a location: a communicator's own; for a thread, those that its calls
/// switched. If the list is empty, all contexts apply.
fn ranks_of(key: LocationKey, tables: &Tables) -> Vec<u64> {
    let counted = tables.switches.iter().filter(|at| at.context != 0).filter(|at| match key {
        LocationKey::Communicator(context) => tables.find_context(at.context) == Some(context),
        // The thread that created a communicator need not be the one that calls.
        LocationKey::Thread(thread) => {
            let is_call = at.step_switch().is_some_and(|switch| switch.started > 0);
            is_call && at.thread.map(|at| tables.first_index_of_thread(at)) == Some(thread)
        }
        _ => false,
    });
    counted.map(|at| at.context).collect()
}
