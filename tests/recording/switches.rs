//! Switches of a running job: what the plugin has noticed is in the journal at once.

use std::path::Path;

use journal::format::record::{Record, RecordBody};
use journal::reader::Journal;
use whole_plugin::process::wait_for;
use whole_plugin::scratch::Scratch;

/// Writes the control file, then waits until the job's process has recorded so many switches.
pub(crate) fn switch(scratch: &Scratch, text: &str, switches: usize) {
    control(&scratch.out(), text);
    wait_for_switches(scratch, switches);
}

pub(crate) fn control(out: &Path, text: &str) {
    std::fs::create_dir_all(out).expect("make the directory");
    std::fs::write(out.join("control"), text).expect("write the control file");
}

/// Waits until the job's process has recorded so many switches.
pub(crate) fn wait_for_switches(scratch: &Scratch, switches: usize) {
    wait_for("switch", || {
        let [part] = &scratch.recording()[..] else { return None };
        let journal = Journal::open(&part.join("journal")).ok()?;
        let mut found = 0;
        let _outcome =
            journal.read(&mut |record: Record| found += usize::from(matches!(record.body, RecordBody::Switch(_))));
        (found >= switches).then_some(())
    });
}

/// Lets a script go on that waits in `take name`.
pub(crate) fn give(scratch: &Scratch, name: &str) {
    let unfinished = scratch.path().join("given");
    std::fs::write(&unfinished, "0").expect("written");
    std::fs::rename(unfinished, scratch.path().join(format!("{name}.handle"))).expect("renamed");
}
