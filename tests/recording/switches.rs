//! Switches of a running job: what the plugin has noticed is in the journal at once.

use std::path::Path;

use journal::format::{Record, RecordBody};
use journal::reader::Journal;
use whole_plugin::process::wait_for;
use whole_plugin::scratch::Scratch;

/// Writes the control file, then waits until the job's process has recorded so many switches.
pub(crate) fn switch(scratch: &Scratch, text: &str, switches: u64) {
    control(&scratch.out(), text);
    wait_for_switches(scratch, switches);
}

pub(crate) fn control(out: &Path, text: &str) {
    std::fs::create_dir_all(out).expect("make the directory");
    std::fs::write(out.join("control"), text).expect("write the control file");
}

/// Waits until the job's process has recorded so many switches.
pub(crate) fn wait_for_switches(scratch: &Scratch, switches: u64) {
    wait_for_records(scratch, "switch", switches, |body| u64::from(matches!(body, RecordBody::Switch(_))));
}

/// Waits until the job's process has recorded that so many events were not selected, as it does every second.
pub(crate) fn wait_for_not_selected(scratch: &Scratch, events: u64) {
    wait_for_records(scratch, "count of what was not selected", events, |body| match body {
        RecordBody::NotSelected(counts) => counts.iter().sum(),
        _ => 0,
    });
}

/// Waits until the records of the job's process count so much.
fn wait_for_records(scratch: &Scratch, what: &str, least: u64, count: impl Fn(&RecordBody) -> u64) {
    wait_for(what, || {
        let [part] = &scratch.recording()[..] else { return None };
        let journal = Journal::open(&part.join("journal")).ok()?;
        let mut found = 0;
        let _outcome = journal.read(&mut |record: Record| found += count(&record.body)).expect("read");
        (found >= least).then_some(())
    });
}

/// Releases a script that waits in `take name`.
pub(crate) fn give(scratch: &Scratch, name: &str) {
    let unfinished = scratch.path().join("given");
    std::fs::write(&unfinished, "0").expect("written");
    std::fs::rename(unfinished, scratch.path().join(format!("{name}.handle"))).expect("renamed");
}
