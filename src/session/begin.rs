//! Begins a session: directories, `process.json`, journal, maintenance thread, Score-P.

use std::sync::Arc;

use super::communicators::Communicators;
use super::description::{describe_process, place_description, with_communicator};
use super::directories::Directories;
use super::maintenance::{MAINTENANCE_NAME, Maintenance};
use super::snapshots::Maker;
use super::state::{FirstInit, Session, describe};
use super::test_clock::TestClock;
use crate::chain;
use crate::control::{self, Control, LargestCommunicator};
use crate::host::{dumps, mask, memory, process, signals};
use crate::record;
use crate::scorep;
use journal::clock;

use journal::host;
use journal::part::ProcessInfo;
use journal::part::{JOURNAL, part_name};
use journal::writer::{JournalWriter, SlotWriter, Stop, WriterOptions};
use journal::writing;
use nccl_events::CommInit;
use nccl_events::ids::ProcessTag;
use settings::Config;

/// `is_before_init`: NCCL has not described the communicator yet.
pub(super) fn session(config: Config, comm: &CommInit<'_>, is_before_init: bool) -> Result<Session, String> {
    let test_clock = TestClock::from_environment()?;
    let steps = control::heard(config.steps.clone(), "NCCL_OTF2_STEPS");
    let mut info = with_communicator(describe_process(&config, test_clock.as_ref()), &config, comm);
    info.steps = steps.to_string();
    let directories = writing::guarded(|| Directories::make(&config, &info)).map_err(host::explain)?;
    info.job.clone_from(&directories.job);
    let tag = ProcessTag::new(process::random_bits());
    info.tag = tag.get();
    if directories.journal != directories.part.join(JOURNAL) {
        info.journal = directories.journal.display().to_string();
        info.part = directories.part.display().to_string();
    }
    dumps::name(&part_name(&directories.part), &info.environment);
    let (writer, slot_writer) = writing::guarded(|| open_journal(&config, &info, &directories, tag))
        // A part that never finishes would keep the job's other processes from making the archive.
        .inspect_err(|_| directories.remove())?;
    if !memory::is_there() {
        directories.remove();
        return Err(describe(&Stop::Memory));
    }
    if let Some(signal) = config.dump_signal {
        signals::DUMP.install(signal);
    }
    if is_before_init && !config.chain.is_empty() {
        // They are loaded at `init`, when what is recorded of NCCL's calls has been chosen.
        mask::share();
    }
    let control = Control::new(&directories.out, config.mask, steps, comm.table);
    if let Some(signal) = config.toggle_signal {
        signals::TOGGLE.install(signal);
    }
    let maintenance = Maintenance::start(
        Arc::clone(&writer),
        slot_writer,
        test_clock,
        Maker::new(&directories.out, &directories.part),
        control,
    );
    // Before recording begins, because threads check whether Score-P is on when they take their slots.
    let scorep = scorep::begin(config.scorep);
    record::begin(Arc::clone(&writer));
    record::ranges::repeat_started(&maintenance.notes());
    Ok(Session {
        config,
        out: directories.out.clone(),
        part: directories.part.clone(),
        tag,
        writer,
        communicators: Communicators::default(),
        largest: LargestCommunicator::default(),
        maintenance,
        gpus: None,
        first_init: Some(FirstInit { directories, scorep, is_late: is_before_init }),
    })
}

/// Opens the journal with the maintenance thread's slot, then puts `process.json` in place. `process.json` without a
/// segment means a damaged journal; a segment without `process.json` means that the process was killed here.
fn open_journal(
    config: &Config,
    info: &ProcessInfo,
    directories: &Directories,
    tag: ProcessTag,
) -> Result<(Arc<JournalWriter>, SlotWriter), String> {
    place_description(&directories.part, info, || {
        let written = chain::report().write(&directories.part);
        written.map_err(|error| format!("{}: {}", directories.part.display(), host::explain(error)))?;
        let options = WriterOptions {
            directory: directories.journal.clone(),
            tag,
            process_id: info.pid,
            tick_source: clock::select(),
            session_start_realtime_ns: info.session_start_realtime_ns,
            limit_bytes: config.limit_bytes(),
        };
        let writer = JournalWriter::with_retention(options, config.flight_retention());
        let slot_writer = writer.register(MAINTENANCE_NAME).map_err(|stop| describe(&stop))?;
        Ok((writer, slot_writer))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use journal::part::PROCESS;

    /// To a reader, a description without a segment is a damaged journal.
    #[test]
    fn there_is_no_description_before_there_is_a_segment() {
        let scratch = tempfile::tempdir().expect("a directory");
        let part = scratch.path().to_owned();
        let begin = |journal: &str| {
            let _before = std::fs::remove_file(part.join(format!(".{PROCESS}")));
            let (out, journal) = (part.clone(), part.join(journal));
            let directories = Directories {
                out,
                part: part.clone(),
                journal,
                job: String::new(),
                other_job: None,
                lacks_job_id: false,
            };
            open_journal(&Config::default(), &ProcessInfo::default(), &directories, ProcessTag::new(1)).map(drop)
        };
        let description = part.join(PROCESS);
        assert!(begin("no-such-directory").is_err() && !description.exists());
        std::fs::create_dir(part.join("journal")).expect("made");
        begin("journal").expect("begun");
        assert!(description.exists() && part.join("journal/0.0").exists());
    }
}
