//! What a session does at its first `init`, which it may have begun before.

use std::sync::Arc;

use super::description::{allgatherv_off, place_description, with_communicator};
use super::directories::Directories;
use super::state::{FirstInit, Session, say};
use crate::chain;
use crate::gpu::{self, Gpus};
use crate::host::{logger, mask};
use crate::scorep;

use journal::host;
use journal::part::PROCESS;
use journal::part::ProcessInfo;
use journal::writing;
use nccl_events::{CommInit, Kind, event};
use settings::{Config, VERSION, Verbosity};

impl Session {
    pub(super) fn note_init(&mut self, comm: &CommInit<'_>) {
        let Some(FirstInit { directories, scorep, is_late }) = self.first_init.take() else {
            return;
        };
        if is_late && let Err(reason) = writing::guarded(|| self.complete_description(comm)) {
            logger::warn(&format!("{reason}; the file does not have the id of the first communicator"));
        }
        let gpus = Gpus::begin(gpu::Options {
            settings: self.config.gpu.clone(),
            verbosity: self.config.verbosity,
            table: comm.table,
            mask: self.config.mask,
            writer: Arc::clone(&self.writer),
            notes: self.maintenance.notes(),
        });
        self.gpus = gpus.map(Arc::new);
        report_start(&self.config, comm, &directories, scorep);
    }

    /// Adds to `process.json` what is known with the first communicator.
    fn complete_description(&self, comm: &CommInit<'_>) -> Result<(), String> {
        let path = self.part.join(PROCESS);
        let refused = |error| format!("{}: {}", path.display(), host::explain(error));
        let read = std::fs::read(&path).and_then(|json| Ok(serde_json::from_slice::<ProcessInfo>(&json)?));
        let info = with_communicator(read.map_err(refused)?, &self.config, comm);
        place_description(&self.part, &info, || Ok(()))?;
        chain::report().write(&self.part).map_err(refused)
    }
}

fn report_start(config: &Config, comm: &CommInit<'_>, directories: &Directories, scorep: scorep::Beginning) {
    let events = settings::event_set(config.mask);
    let out = directories.out.display();
    let chained = chain::report().plugins;
    let behind = if chained.is_empty() { String::new() } else { format!(", with {} behind it", chained.join(", ")) };
    say(config, &format!("version {VERSION}{behind}: recording {events} events into {out}"));
    if let (Some(other), true) = (&directories.other_job, comm.rank <= 0) {
        let advice = match directories.lacks_job_id {
            true => {
                "there is no job id here, so %j in NCCL_OTF2_DIR is `unknown`: set NCCL_OTF2_JOB to another text for \
                 each job"
            }
            false => "NCCL_OTF2_DIR=trace-%j is another directory for each job, NCCL_OTF2_JOB names a job",
        };
        logger::warn(&format!(
            "the directory asked for holds the recording of another job ({other}); that of this job ({}) goes into \
             {out} ({advice})",
            directories.job
        ));
    }
    match scorep {
        scorep::Beginning::Silent => {}
        scorep::Beginning::On(line) => say(config, &line),
        scorep::Beginning::Refused(line) => logger::warn(&line),
    }
    let has_channels = |mask: u32| event::has(comm.table, Kind::KernelCh) && mask & Kind::KernelCh.mask() != 0;
    let why = match (has_channels(config.mask), has_channels(mask::chained())) {
        (true, _) => "kernel channels are recorded (NCCL_OTF2_EVENTS)",
        (false, true) => "a plugin asks for kernel channels (NCCL_OTF2_CHAIN)",
        (false, false) => return,
    };
    // Only one rank warns for the communicator; v1 to v3 do not identify the rank.
    if comm.rank <= 0 && config.verbosity > Verbosity::Quiet {
        logger::warn(&format!("{why}: {}", settings::kernel_channels(comm.nccl_version, allgatherv_off())));
    }
}
