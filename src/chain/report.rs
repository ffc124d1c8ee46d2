//! Reports the chained plugins, and the calls that they did not get, for the log and the archive.

use std::sync::atomic::{AtomicU64, Ordering};

use journal::part::ChainReport;
use nccl_events::Table;
use parking_lot::Mutex;

use crate::host::logger;

#[derive(Clone, Copy)]
pub(crate) enum Count {
    /// Starts for communicators that a plugin does not know, because it failed for them or they have ended.
    StartsNotHandedOver,
    /// Stops and states for such communicators, and for events evicted from the table of handles.
    CallsNotHandedOver,
    Errors,
}

const NAMES: [&str; 3] = ["STARTS_NOT_HANDED_OVER", "CALLS_NOT_HANDED_OVER", "ERRORS"];
static COUNTS: [AtomicU64; NAMES.len()] = [const { AtomicU64::new(0) }; NAMES.len()];
static PLUGINS: Mutex<Lists> = Mutex::new(Lists { plugins: Vec::new(), left_out: Vec::new() });

struct Lists {
    plugins: Vec<String>,
    left_out: Vec<String>,
}

#[cold]
pub(crate) fn count(count: Count) {
    if let Some(counter) = COUNTS.get(count as usize) {
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

pub(crate) fn took(name: &str, table: Table) {
    PLUGINS.lock().plugins.push(format!("{name} ({table})"));
}

/// A plugin is not used at all, or not for a communicator. Warns the user once.
pub(crate) fn leave_out(name: &str, reason: &str) {
    let line = format!("{name}: {reason}");
    let mut lists = PLUGINS.lock();
    if lists.left_out.contains(&line) {
        return;
    }
    lists.left_out.push(line.clone());
    drop(lists);
    logger::warn(&format!("NCCL_OTF2_CHAIN={line}; it is left out"));
}

pub(crate) fn report() -> ChainReport {
    report_with(|count| count.load(Ordering::Relaxed))
}

/// The counts since the last call; a session writes them at its end.
pub(crate) fn take_report() -> ChainReport {
    report_with(|count| count.swap(0, Ordering::Relaxed))
}

fn report_with(read: fn(&AtomicU64) -> u64) -> ChainReport {
    let lists = PLUGINS.lock();
    let numbers = NAMES.iter().zip(&COUNTS).map(|(name, count)| ((*name).to_owned(), read(count)));
    let counts = numbers.filter(|(_, number)| *number > 0).collect();
    ChainReport { plugins: lists.plugins.clone(), left_out: lists.left_out.clone(), counts }
}
